"""The catalog machine: tenants, streams and tokens, and every change to them as events on the metadata log."""

"""The node without its wires: machines on their logs, and the way from a name to a partition. No event loop here."""

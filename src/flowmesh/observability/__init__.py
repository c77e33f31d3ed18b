"""Metrics, audit and logs. Reads the statistics of a node and is told by its wires; the cores never call it."""

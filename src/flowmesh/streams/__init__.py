"""The stream machine: records in partitions, producers that may send twice, positions by offset and by time."""

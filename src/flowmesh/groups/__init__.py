"""The groups machine: who reads a stream, how far each has read, and what retention keeps for it."""

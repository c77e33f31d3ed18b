"""Wires: bytes to commands and replies to bytes. One table of operations, one admission and one service serve all."""

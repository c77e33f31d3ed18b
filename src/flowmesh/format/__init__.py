"""Bytes to values and back, one module for each format. Nothing here opens, reads or writes a file."""

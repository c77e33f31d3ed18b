"""Ids, offsets, errors and limits: the words every layer shares. Standard library only."""

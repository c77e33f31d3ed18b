"""The one table of operations with its requests and replies: wires, client, CLI and tests derive from it."""

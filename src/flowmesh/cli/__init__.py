"""The `flowmesh` command. Modules named for a command declare it and stay light; its work is imported when it runs."""

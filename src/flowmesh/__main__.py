"""`python -m flowmesh` is the `flowmesh` command; nothing else belongs here."""

from flowmesh.cli.main import main

if __name__ == "__main__":
    main()

"""What the cores need from the world, as Protocols: time, disk, writer, entropy. No implementation lives here."""

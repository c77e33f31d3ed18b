"""One partition's log: segments, blocks, chain, indexes, recovery, retention. Plain blocking code over `ports.Disk`."""

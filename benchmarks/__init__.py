"""What the log costs, always next to what the machine itself can do in the same run. See docs/benchmarks.md."""

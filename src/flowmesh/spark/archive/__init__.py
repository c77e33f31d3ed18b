"""The archive as Spark jobs: written, read together with the log, and verified."""

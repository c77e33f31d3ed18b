"""Pipelines as people write them: a YAML file, a Python file, a declarative one of Spark; and how their runs went."""

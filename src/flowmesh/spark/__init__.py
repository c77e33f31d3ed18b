"""FlowMesh and Spark: source, sink, archive and pipelines. Needs the `spark` extra; nothing below imports it."""

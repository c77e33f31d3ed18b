"""What Spark finds by itself: `spark.read.format("flowmesh")`, with nothing to register."""

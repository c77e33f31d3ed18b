"""The cold tier of a stream: Parquet files and the manifest that says which they are. No Spark here."""

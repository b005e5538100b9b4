"""The data pipeline: PySpark carries notifications from the log into the lake and back out."""

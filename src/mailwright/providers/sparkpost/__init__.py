"""Send through SparkPost."""

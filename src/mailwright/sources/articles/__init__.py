"""Articles: one personal newsletter for each reader, put together from slices by where the reader lives."""

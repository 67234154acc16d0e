"""Articles: personal newsletters, assembled for each recipient from slices by where the recipient lives."""

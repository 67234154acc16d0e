"""Articles: newsletters assembled for each recipient from the slices for the divisions where they live."""

"""Recipients of articles in a table of another program: read when a run starts, and updated when people leave."""

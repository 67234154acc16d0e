"""Import files of contacts: streamed, stored in batches, with a report line for every row."""

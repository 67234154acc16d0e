"""Files of contacts: read as they come, stored portion by portion, with a line of report for every row."""

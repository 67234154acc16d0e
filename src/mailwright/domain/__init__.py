"""Words and values: what every other part speaks of. No I/O, and no clock of its own."""

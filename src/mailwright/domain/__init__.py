"""The types and values that all other packages share. This package does no I/O and reads no clock."""

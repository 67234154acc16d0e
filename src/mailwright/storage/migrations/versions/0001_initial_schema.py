"""Create the initial schema."""

from mailwright.storage.revision import read_script

OLDEST_COMPATIBLE = "0001"
STEPS = read_script(__file__)

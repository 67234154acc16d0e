"""`python -m mailwright.cli` is the command `mailwright`."""

from mailwright.cli import main

main()

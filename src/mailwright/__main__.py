"""`python -m mailwright` is the command `mailwright`."""

from mailwright.cli import main

main()

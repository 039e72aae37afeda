"""`python -m orchard`: the same as the command `orchard`."""

from orchard.cli import main

main()

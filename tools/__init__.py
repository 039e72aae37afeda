"""Scripts for development. None of them is in the wheel."""

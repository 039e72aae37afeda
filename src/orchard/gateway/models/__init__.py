"""Which models exist, where their files are, and downloads."""

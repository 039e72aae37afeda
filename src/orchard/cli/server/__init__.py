"""The commands that show and change a running server."""

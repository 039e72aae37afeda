"""What the server counts, and how it reports that."""

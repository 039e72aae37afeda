"""The server's counters, and how they are reported."""

"""Stored responses, conversations and chat completions, in SQLite."""

"""Summaries of conversations that exceed the context window."""

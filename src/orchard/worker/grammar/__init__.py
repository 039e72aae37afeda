"""Grammars that bind answers and tool calls."""

"""Grammars that constrain answers and tool calls."""

"""Proposals for the next tokens of rows, and how many of them a step verifies."""

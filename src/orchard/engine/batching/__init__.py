"""Prefill and decode of several rows in one forward pass."""

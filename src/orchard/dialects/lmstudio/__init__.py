"""LM Studio's REST API."""

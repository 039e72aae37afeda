"""Stateful chats of LM Studio's REST API."""

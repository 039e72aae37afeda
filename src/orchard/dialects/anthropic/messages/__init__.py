"""Anthropic's Messages: https://platform.claude.com/docs/en/api/messages/create."""

"""Draft models and MTP heads, which guess a model's next tokens."""

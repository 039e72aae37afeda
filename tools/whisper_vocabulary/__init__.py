"""Whisper's vocabularies as Orchard has them, and what OpenAI's own tokenizer makes of texts."""

"""Make Orchard's copies of Whisper's vocabularies, and references from OpenAI's own tokenizer."""

"""Whisper's vocabularies, for models whose folder has no tokenizer.

`merges.npz` is made from OpenAI's files (tools/whisper_vocabulary), under the licence beside it.
"""

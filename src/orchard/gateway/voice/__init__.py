"""Voices for conversations: what is heard is transcribed, and what is answered is spoken."""

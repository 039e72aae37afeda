"""The prefix cache: keys and values of prompts and answers, in memory and on disk."""

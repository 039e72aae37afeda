"""Speech models: what each takes, and how it speaks."""

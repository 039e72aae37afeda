"""What requests want from models: one file for each task, with its fields, its result and its load options."""

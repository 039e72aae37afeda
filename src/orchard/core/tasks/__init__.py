"""What models can be asked for: one file a task, with its fields, its result and how its models are loaded."""

"""Model output formats: they separate reasoning, text and tool calls in a model's output."""

"""Model output formats: how reasoning, text and tool calls are told apart in what a model writes."""

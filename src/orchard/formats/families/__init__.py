"""One file a family of models: how it writes reasoning and tool calls."""

"""What all dialects share: bodies, common fields, media, tools, errors and output."""

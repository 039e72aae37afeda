"""What all dialects share: decoding a JSON body, common fields, pieces of output."""

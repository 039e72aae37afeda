"""The APIs: each turns bodies into requests, events into server-sent events or JSON, and failures into error bodies."""

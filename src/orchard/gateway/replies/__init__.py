"""From a stream of events to an HTTP response."""

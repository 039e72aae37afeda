"""One API dialect a file: body to Request, events to SSE or JSON, failure to error body."""

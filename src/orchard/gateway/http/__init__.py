"""The HTTP server: connections and their limits, bodies, keys, the application."""

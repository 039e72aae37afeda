"""The routes. Each file connects an API with the pool, and has a function `add(routes, site)`."""

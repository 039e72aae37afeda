"""The routes. Each file connects an API with the pool, and has a function `add_<api>_routes(routes, site)`."""

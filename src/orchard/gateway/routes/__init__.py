"""The routes: thin arrows between a dialect and the pool, one file a dialect, each with an `add(app, site)`."""

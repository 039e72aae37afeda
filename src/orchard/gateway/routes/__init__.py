"""The routes. Each connects a dialect with the pool: one file per dialect, each with an `add(app, site)`."""

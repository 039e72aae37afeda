"""Try the bundled model as a new user would: send the cases of tests/demo/cases to a running server."""

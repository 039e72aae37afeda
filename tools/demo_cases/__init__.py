"""Try the bundled model as a newcomer would: the cases of tests/demo/cases, sent to a running server."""

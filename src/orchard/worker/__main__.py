"""`python -m orchard.worker`: started by the gateway, never by hand."""

from orchard.worker.main import main

main()

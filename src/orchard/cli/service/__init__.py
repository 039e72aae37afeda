"""`orchard service`: a server that the system starts when its user logs in."""

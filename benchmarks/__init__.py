"""Measurements that documentation and changelog may quote. `make bench` runs them all; each prints JSON lines."""

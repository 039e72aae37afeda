"""Models that make images, through mflux, in an environment of their own: nothing here imports `orchard.engine`."""

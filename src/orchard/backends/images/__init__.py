"""Image models, through mflux, in their own environment: nothing here imports `orchard.engine`."""

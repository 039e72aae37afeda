"""The libraries' own loops over a model, without Orchard's engine, for `orchard verify`."""

"""Separate environments for workers whose libraries can't be installed together with Orchard's."""

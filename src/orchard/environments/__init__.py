"""Environments of their own, for workers whose libraries can't be installed beside Orchard's."""

"""Tells whether somebody who has paused has finished speaking."""

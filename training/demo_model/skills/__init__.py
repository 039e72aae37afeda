"""What the demo model can do: one module a family, each making exchanges with their right answers."""

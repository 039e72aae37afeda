"""`orchard cluster`: models on several machines."""

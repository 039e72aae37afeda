"""`orchard verify`: proofs on the user's machine, with the user's models, that answers are right, fast and safe."""

"""The commands about models: those on this machine, and those on the Hugging Face Hub."""

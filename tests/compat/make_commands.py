"""Writes the commands with their options: `python -m tests.compat.make_commands`."""

from tests.compat.bridge import options, write

if __name__ == "__main__":
    # What `serve` takes besides is in settings.json.
    own = {name: found for name, found in options().items() if name != "serve"}
    write("commands.json", own | {"serve": {"--config": options()["serve"]["--config"]}})

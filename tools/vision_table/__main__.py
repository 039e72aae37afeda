"""Tests every architecture and writes the table into docs/vision-models.md."""

import logging
import warnings

from tools.vision_table.architectures import architecture, names
from tools.vision_table.page import PAGE, with_table
from tools.vision_table.trial import try_out


def main() -> None:
    """Write the page, and say how far it is."""
    warnings.simplefilter("ignore")  # of transformers, about tiny configurations
    logging.getLogger("orchard.engine").setLevel(logging.ERROR)
    rows = []
    for name in names():
        found = architecture(name)
        trial = try_out(found) if found.kind == "media" else None
        print(name, *(trial or ()), flush=True)
        rows.append((found, trial))
    PAGE.write_text(with_table(PAGE.read_text(), rows))


if __name__ == "__main__":
    main()

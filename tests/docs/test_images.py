"""The page on images has the table of presets."""

from pathlib import Path

from orchard.backends.images.presets import PRESETS, Preset

PAGE = Path(__file__).parents[2] / "docs" / "images.md"
HEAD = "| preset | repository | input images | steps | guidance | negative prompt | mask | LoRA | partial images |"


def row(preset: Preset) -> str:
    def yes(value: bool) -> str:
        return "yes" if value else ""

    return " | ".join(
        (
            f"| `{preset.name}`",
            f"`{preset.repository}`",
            f"up to {preset.pictures}" if preset.pictures > 1 else str(preset.pictures or ""),
            str(preset.steps),
            "" if preset.guidance is None else f"{preset.guidance:g}",
            yes(preset.negative_prompt),
            "needed" if preset.mask else "",
            yes(preset.loras),
            yes(preset.latents is not None) + " |",
        )
    ).replace("  ", " ")


def test_the_table_is_that_of_the_code() -> None:
    table = "\n".join([HEAD, "|---" * HEAD.count(" | ") + "|---|", *map(row, PRESETS.values())])
    assert f"\n{table}\n" in PAGE.read_text()

from collections.abc import Mapping

from orchard.gateway.metrics.counters import SoundPart
from orchard.gateway.voice.first_sound import FirstSound


def test_each_part_lasts_from_the_end_of_the_one_before() -> None:
    now, counted = [1.0], list[Mapping[SoundPart, float]]()
    first = FirstSound(counted.append, lambda: now[0])
    parts: list[tuple[SoundPart, float]] = [
        ("text", 2.0),
        ("text", 3.0),
        ("clause", 4.0),
        ("sound", 8.0),
        ("sound", 9.0),
    ]
    for part, at in [*parts, *parts]:
        now[0] = at
        first.end(part)
    assert counted == [{"text": 1.0, "clause": 2.0, "sound": 4.0}]

"""Plan which models are loaded, evicted, or wait. These are pure functions, without clocks and processes.

Waiting models are served in order, and none overtakes another. Each one gets its memory once the models that have it
have finished their requests.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from orchard.gateway.model_status import ShownState


class ResidentModel(Struct, frozen=True, kw_only=True):
    """A model as placement sees it; `need` is in bytes.

    `weights`: of its weights alone. `wanted`: with how many bytes a request would run that waits for memory, if the
    model may not take as many now; else 0. `state`: an unloading model still takes its memory. `busy`: it has requests.
    `used`: when it was last used; later is higher. `modest`: it takes only free memory, and evicts no model. `bundled`:
    it does not count as one of the models in memory, and is evicted when it is idle and another model is loaded.
    `resident`: it is loaded at startup, and is evicted only if evicting on-demand models does not make enough room.
    """

    id: str
    need: int
    state: ShownState
    weights: int = 0
    wanted: int = 0
    busy: bool = False
    pinned: bool = False
    used: float = 0.0
    modest: bool = False
    bundled: bool = False
    resident: bool = False


class PlacementPlan(Struct):
    """What to do. `hold`: models that get no new requests, so that they can be evicted soon."""

    load: list[str] = field(default_factory=list)
    evict: dict[str, str] = field(default_factory=dict)
    """Models to evict, and the model that each makes room for."""
    hold: set[str] = field(default_factory=set)
    refuse: dict[str, str] = field(default_factory=dict)
    """Models that can never be loaded beside the pinned ones, and why."""
    drop: list[str] = field(default_factory=list)
    """Modest models for which there is no room."""


def plan(
    waiting: Sequence[ResidentModel],
    placed: Sequence[ResidentModel],
    most: int,
    limit: int | None,
    now: int | None = None,
) -> PlacementPlan:
    """Return what to do with the models that wait, in order, and with those that take memory (`placed`).

    At most `most` models may be in memory, within `limit` bytes; None: unknown until a process has started. If other
    programs take memory, models are to take only `now` bytes. A model that needs more than that is loaded beside pinned
    ones only.
    """
    made = PlacementPlan()
    models = list(placed)
    for model in waiting:
        if why := _never(model, models, most, limit):
            made.refuse[model.id] = why
    for model in waiting:
        if model.id in made.refuse:
            continue
        if limit is None and models:
            break
        budget = _budget(model, models, limit, now)
        if _fits(model, models, most, budget):
            made.load.append(model.id)
            models.append(model)
            if not model.bundled:
                asides = {one.id: model.id for one in placed if one.bundled and _may_go(one) and not one.busy}
                made.evict |= asides
                made.hold |= asides.keys()
        elif model.modest:
            # Count memory that is being freed as free.
            if not _fits(model, [one for one in models if one.state != "unloading"], most, budget):
                made.drop.append(model.id)
        else:
            _make_room(made, model, models, most, budget)
            break
    return made


def need(weights_bytes: int, budget: int | None) -> int:
    """Return the least bytes that a model gets: its weights and an eighth more, as far as the budget allows."""
    wanted = weights_bytes + weights_bytes // 8
    return wanted if budget is None else max(weights_bytes, min(wanted, budget))


def allowances(needs: Sequence[int], budget: int) -> list[int]:
    """Divide the budget between models: each gets what it needs, and an equal share of the rest."""
    total = sum(needs)
    if total > budget:  # some models take more than was known before they were loaded
        return [max(1, budget * one // total) for one in needs]
    return [one + (budget - total) // len(needs) for one in needs]


def shed(placed: Sequence[ResidentModel], now: int, slack: int) -> dict[str, str]:
    """Return the idle models to evict, the least recently used ones first, and why.

    They go if the weights take more than `now` bytes, the most for all models, and `slack` beyond that; or if a request
    of another model waits for memory that it would get then.
    """
    stay = [one for one in placed if one.state != "unloading"]
    idle = sorted((one for one in stay if _may_go(one) and not (one.busy or one.resident)), key=lambda one: one.used)
    gone: dict[str, str] = {}
    while idle and sum(one.weights for one in stay) > now + slack:
        gone[idle[0].id] = f"all models may take {now:,} bytes now, and their weights take more"
        stay.remove(idle.pop(0))
    for model in [one for one in stay if one.wanted]:
        kept, victims = list(stay), [one for one in idle if one is not model]
        while victims and _share(model, kept, now) < model.wanted:
            kept.remove(victims.pop(0))
        if _share(model, kept, now) >= model.wanted:
            why = f"a request for {model.id} waits for {model.wanted:,} bytes"
            gone |= {one.id: why for one in stay if one not in kept}
            stay = kept
            idle = [one for one in idle if one in kept]
    return gone


def _share(model: ResidentModel, models: Sequence[ResidentModel], budget: int) -> int:
    return allowances([one.need for one in models], budget)[models.index(model)]


def _budget(model: ResidentModel, models: Sequence[ResidentModel], limit: int | None, now: int | None) -> int | None:
    """Return the bytes within which a model is placed: `now`, or as much as it takes beside pinned models."""
    if limit is None or now is None:
        return limit
    least = model.need + sum(one.need for one in models if one.pinned and one.state != "unloading")
    return min(limit, max(now, least))


def _fits(model: ResidentModel, models: Sequence[ResidentModel], most: int, budget: int | None) -> bool:
    if not model.bundled and _count(models) >= most:
        return False
    return budget is None or sum(one.need for one in models) + model.need <= budget


def _never(model: ResidentModel, models: Sequence[ResidentModel], most: int, budget: int | None) -> str | None:
    stay = [one for one in models if one.pinned and one.state != "unloading"]
    if _fits(model, stay, most, budget):
        return None
    if _count(stay) >= most and not model.bundled:
        return f"{most} may be in memory at once, and as many are pinned"
    return too_large(model.need, budget or 0, {one.id: one.need for one in stay})


def too_large(need_bytes: int, limit: int, pinned: Mapping[str, int]) -> str:
    """Return the reason for rejecting a model that is too large beside pinned ones, and what to do."""
    text = f"it needs {need_bytes:,} bytes of memory, and all models may take {limit:,}"
    advice = "use a version of it with fewer bits, or a larger memory_limit"
    if pinned:
        taken = ", ".join(f"{id_}: {size:,}" for id_, size in pinned.items())
        return f"{text}; pinned models take {sum(pinned.values()):,} of them ({taken}); unload one of those, {advice}"
    return f"{text}; {advice}"


def _make_room(
    made: PlacementPlan, model: ResidentModel, models: Sequence[ResidentModel], most: int, budget: int | None
) -> None:
    """Choose the models to evict for one that does not fit: residents last, idle and least recently used ones first."""
    stay = [one for one in models if one.state != "unloading"]
    candidates = sorted(filter(_may_go, stay), key=lambda one: (one.resident, one.busy, one.used))
    victims: list[ResidentModel] = []
    while candidates and not _fits(model, stay, most, budget):
        victims.append(candidates.pop(0))
        stay.remove(victims[-1])
    if not _fits(model, stay, most, budget):
        return  # models that are loading now must be ready first
    for victim in reversed(victims):
        if _fits(model, [*stay, victim], most, budget):  # a later victim is so large that this one can stay
            stay.append(victim)
            continue
        made.hold.add(victim.id)
        if not victim.busy:
            made.evict[victim.id] = model.id


def _count(models: Sequence[ResidentModel]) -> int:
    return sum(not model.bundled for model in models)


def _may_go(model: ResidentModel) -> bool:
    return model.state == "ready" and not model.pinned

"""Plan which models are loaded, evicted, or wait. These are pure functions, without clocks and processes.

Waiting models are served in order, and none overtakes another. Each one gets its memory once the models that have it
have finished their requests. The model that has the turn goes before them.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from orchard.gateway.model_status import ShownState


class ResidentModel(Struct, frozen=True, kw_only=True):
    """A model as placement sees it; `need` is in bytes.

    `weights`: of its weights alone. `running_bytes`: of its weights and the rows that run. `turn_bytes`: what it gets
    as long as it has the turn; else 0. `max_bytes`: the most that it may take; None: its share. `state`: an unloading
    model still takes its memory. `busy`: it has requests. `has_begun_starved`: requests that have begun wait for
    memory in its process, so they would end with it. `last_used`: when it was last used; later is higher. `modest`:
    it takes only free memory, and evicts no model. `bundled`: it does not count as one of the models in memory, and
    is evicted when it is idle and another model is loaded. `resident`: it is loaded at startup, and is evicted only
    if evicting on-demand models does not make enough room.
    """

    id: str
    need: int
    state: ShownState
    weights: int = 0
    running_bytes: int = 0
    turn_bytes: int = 0
    max_bytes: int | None = None
    busy: bool = False
    has_begun_starved: bool = False
    pinned: bool = False
    last_used: float = 0.0
    modest: bool = False
    bundled: bool = False
    resident: bool = False


class MemoryTurn(Struct, frozen=True):
    """A model's right to `bytes` of memory, until one of its requests has ended; `queued_at`: that request's time."""

    model: str
    request: str
    bytes: int
    queued_at: float = 0.0


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


def make_plan(
    waiting: Sequence[ResidentModel],
    placed: Sequence[ResidentModel],
    max_models: int,
    limit: int | None,
    budget_now: int | None = None,
) -> PlacementPlan:
    """Return what to do with the models that wait, in order, and with those that take memory (`placed`).

    At most `max_models` models may be in memory, within `limit` bytes; None: unknown until a process has started. If
    other programs take memory, models are to take only `budget_now` bytes. A model that needs more than that is loaded
    beside pinned ones only.
    """
    plan = PlacementPlan()
    models = list(placed)
    for owner in [one for one in placed if one.turn_bytes]:
        _make_turn_room(plan, owner, [one for one in placed if one is not owner], max_models, budget_now)
        if plan.hold:
            return plan
    for model in waiting:
        if why := _refusal_reason(model, models, max_models, limit):
            plan.refuse[model.id] = why
    for model in waiting:
        if model.id in plan.refuse:
            continue
        if limit is None and models:
            break
        budget = _budget_for(model, models, limit, budget_now)
        if _fits_budget(model, models, max_models, budget):
            plan.load.append(model.id)
            models.append(model)
            if not model.bundled:
                asides = {one.id: model.id for one in placed if one.bundled and _can_evict(one) and not one.busy}
                plan.evict |= asides
                plan.hold |= asides.keys()
        elif model.modest:
            # Count memory that is being freed as free, and that of a turn, which will be.
            stay = [_without_turn(one) for one in models if one.state != "unloading"]
            if not _fits_budget(model, stay, max_models, budget):
                plan.drop.append(model.id)
        else:
            _make_room(plan, model, models, max_models, budget, victims=models)
            break
    return plan


def need(weights_bytes: int, budget: int | None) -> int:
    """Return the least bytes that a model gets: its weights and an eighth more, as far as the budget allows."""
    wanted = weights_bytes + weights_bytes // 8
    return wanted if budget is None else max(weights_bytes, min(wanted, budget))


def allowances(needs: Sequence[int], maxima: Sequence[int], budget: int) -> list[int]:
    """Divide the budget between models: each gets what it needs, and an equal share of the rest.

    None gets more than the most that it may take (`maxima`); the others share what is left of that.
    """
    given = list(map(min, needs, maxima))
    total = sum(given)
    if total > budget:  # some models take more than was known before they were loaded
        return [max(1, budget * one // total) for one in given]
    rest = budget - total
    models = sorted(range(len(given)), key=lambda model: maxima[model] - given[model])
    for number, model in enumerate(models):
        more = min(maxima[model] - given[model], rest // (len(models) - number))
        given[model] += more
        rest -= more
    return given


def shares(models: Sequence[ResidentModel], budget: int) -> list[int]:
    """Divide the budget between models. The one that has the turn gets the bytes of it as soon as there is enough.

    The others then keep their rows if there is room for these, else only what they need.
    """
    maxima = [one.max_bytes or budget for one in models]
    for taken in ([_with_rows(one) for one in models], models) if any(one.turn_bytes for one in models) else ():
        needs = [max(one.need, one.turn_bytes) for one in taken]
        if sum(needs) <= budget:
            return allowances(needs, maxima, budget)
    return allowances([one.need for one in models], maxima, budget)


def choose_turn(
    current: MemoryTurn | None, starved: Sequence[MemoryTurn], placed: Sequence[ResidentModel], budget: int | None
) -> MemoryTurn | None:
    """Return the turn that goes on or begins; None: no model has one.

    A turn goes on as long as the models can have the memory (`budget`: of all models, in bytes) for it. The next one is
    that of the oldest request that can run. `starved`: the oldest starved request of each model.
    """
    waiting = sorted(starved, key=lambda one: one.queued_at)
    return next((one for one in [*([current] if current else []), *waiting] if _can_run(one, placed, budget)), None)


def next_turn(
    current: MemoryTurn | None, starved: Sequence[MemoryTurn], placed: Sequence[ResidentModel], budget: int | None
) -> MemoryTurn | None:
    """Return the turn that goes on or begins next. Answers that can't go on even alone are to end first."""
    alone = [replace(one, has_begun_starved=False) for one in placed]
    stuck = {one.model for one in starved if not _can_run(one, alone, budget)}
    freed = [replace(one, has_begun_starved=one.has_begun_starved and one.id not in stuck) for one in placed]
    return choose_turn(current, starved, freed, budget)


def _can_run(turn: MemoryTurn, placed: Sequence[ResidentModel], budget: int | None) -> bool:
    """Return whether there is enough memory once all other models that may go have gone."""
    others = [one for one in placed if one.id != turn.model and one.state != "unloading"]
    least = sum(one.need for one in others if one.pinned or one.has_begun_starved)
    return budget is not None and turn.bytes + least <= budget


def choose_evictions(placed: Sequence[ResidentModel], budget: int, slack: int) -> dict[str, str]:
    """Return the idle models to evict, the least recently used ones first, and why.

    They go if the weights take more than `budget` bytes, the most for all models, and `slack` beyond that.
    """
    stay = [one for one in placed if one.state != "unloading"]
    idle = sorted(
        (one for one in stay if _can_evict(one) and not (one.busy or one.resident)), key=lambda one: one.last_used
    )
    gone: dict[str, str] = {}
    while idle and sum(one.weights for one in stay) > budget + slack:
        gone[idle[0].id] = f"all models may take {budget:,} bytes now, and their weights take more"
        stay.remove(idle.pop(0))
    return gone


def _budget_for(
    model: ResidentModel, models: Sequence[ResidentModel], limit: int | None, budget_now: int | None
) -> int | None:
    """Return the bytes within which a model is placed: `budget_now`, or as much as it takes beside pinned models."""
    if limit is None or budget_now is None:
        return limit
    least = model.need + sum(one.need for one in models if one.pinned and one.state != "unloading")
    return min(limit, max(budget_now, least))


def _fits_budget(model: ResidentModel, models: Sequence[ResidentModel], max_models: int, budget: int | None) -> bool:
    if not model.bundled and _count_models(models) >= max_models:
        return False
    return budget is None or sum(max(one.need, one.turn_bytes) for one in models) + model.need <= budget


def _refusal_reason(
    model: ResidentModel, models: Sequence[ResidentModel], max_models: int, budget: int | None
) -> str | None:
    stay = [_without_turn(one) for one in models if one.pinned and one.state != "unloading"]
    if _fits_budget(model, stay, max_models, budget):
        return None
    if _count_models(stay) >= max_models and not model.bundled:
        return f"{max_models} may be in memory at once, and as many are pinned"
    return too_large_reason(model.need, budget or 0, {one.id: one.need for one in stay})


def too_large_reason(need_bytes: int, limit: int, pinned: Mapping[str, int]) -> str:
    """Return the reason for rejecting a model that is too large beside pinned ones, and what to do."""
    text = f"it needs {need_bytes:,} bytes of memory, and all models may take {limit:,}"
    advice = "use a version of it with fewer bits, or a larger memory_limit"
    if pinned:
        taken = ", ".join(f"{id_}: {size:,}" for id_, size in pinned.items())
        return f"{text}; pinned models take {sum(pinned.values()):,} of them ({taken}); unload one of those, {advice}"
    return f"{text}; {advice}"


def _make_turn_room(
    plan: PlacementPlan, owner: ResidentModel, others: Sequence[ResidentModel], max_models: int, budget: int | None
) -> None:
    """Choose the models to evict, so that the owner of the turn gets the bytes of it.

    First the others give up what they have beside their rows, then idle models go, then rows wait. Evict a busy model
    only if that is not enough.
    """
    asker = replace(owner, need=owner.turn_bytes)
    idle = [one for one in others if not (one.busy or one.resident)]
    if not _make_room(plan, asker, [_with_rows(one) for one in others], max_models, budget, victims=idle):
        _make_room(
            plan, asker, others, max_models, budget, victims=[one for one in others if not one.has_begun_starved]
        )


def _make_room(
    plan: PlacementPlan,
    model: ResidentModel,
    models: Sequence[ResidentModel],
    max_models: int,
    budget: int | None,
    *,
    victims: Sequence[ResidentModel],
) -> bool:
    """Choose which of `victims` to evict for a model that does not fit, and return whether it will fit.

    Residents go last, idle and least recently used ones first.
    """
    stay = [one for one in models if one.state != "unloading"]
    ids = {one.id for one in victims}
    candidates = [one for one in stay if _can_evict(one) and one.id in ids]
    candidates.sort(key=lambda one: (one.resident, one.busy, one.last_used))
    gone: list[ResidentModel] = []
    while candidates and not _fits_budget(model, stay, max_models, budget):
        gone.append(candidates.pop(0))
        stay.remove(gone[-1])
    if not _fits_budget(model, stay, max_models, budget):
        return False  # models that are loading now must be ready first
    for victim in reversed(gone):
        # A later victim is so large that this one can stay.
        if _fits_budget(model, [*stay, victim], max_models, budget):
            stay.append(victim)
            continue
        plan.hold.add(victim.id)
        if not victim.busy:
            plan.evict[victim.id] = model.id
    return True


def _without_turn(model: ResidentModel) -> ResidentModel:
    """Return a model as it is without a turn."""
    return replace(model, turn_bytes=0)


def _with_rows(model: ResidentModel) -> ResidentModel:
    """Return a model that needs what its rows take, too."""
    return replace(model, need=max(model.need, model.running_bytes))


def _count_models(models: Sequence[ResidentModel]) -> int:
    return sum(not model.bundled for model in models)


def _can_evict(model: ResidentModel) -> bool:
    return model.state == "ready" and not model.pinned

"""The query of a route that lists stored objects: which page, and in which order."""

from typing import Annotated

from fastapi import Depends, Query

from orchard.dialects.openai.stored import DEFAULT_PAGE, MAX_PAGE
from orchard.gateway.store.items import Order, PageQuery

_After = Annotated[str | None, Query(description="The id of the item after which the list begins.")]
_Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


async def _newest_first(after: _After = None, limit: _Limit = DEFAULT_PAGE, order: Order = "desc") -> PageQuery:
    return PageQuery(after, limit, order)


async def _oldest_first(after: _After = None, limit: _Limit = DEFAULT_PAGE, order: Order = "asc") -> PageQuery:
    return PageQuery(after, limit, order)


# Parameters of routes. The newest or the oldest objects come first, unless the client sets another order.
NewestFirst = Annotated[PageQuery, Depends(_newest_first)]
OldestFirst = Annotated[PageQuery, Depends(_oldest_first)]

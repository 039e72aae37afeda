"""Stored conversations and chat completions: the store's functions, called in its thread."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from orchard.gateway.store import completions as store_completions
from orchard.gateway.store import conversations as store_conversations
from orchard.gateway.store.store import Transaction

P = ParamSpec("P")
T = TypeVar("T")


class Transact(Protocol):
    """Calls a function of the store in its thread and in a transaction. Raises OrchardError if it fails."""

    async def __call__(
        self, function: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what the function returns."""


class _Stored:
    def __init__(self, transact: Transact) -> None:
        self.transact = transact


def _method(
    function: Callable[Concatenate[Transaction, P], T],
) -> Callable[Concatenate[_Stored, P], Coroutine[Any, Any, T]]:
    """Return the method that calls a function of the store."""

    @wraps(function)
    async def method(self: _Stored, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.transact(function, *args, **kwargs)

    return method


class StoredConversations(_Stored):
    """The conversations of a server. `store/conversations.py` says what the methods do."""

    create = _method(store_conversations.create_conversation)
    load = _method(store_conversations.load_conversation)
    search = _method(store_conversations.search_conversations)
    responses = _method(store_conversations.load_responses_page)
    update = _method(store_conversations.update_conversation)
    delete = _method(store_conversations.delete_conversation)
    related = _method(store_conversations.related_items)
    add_items = _method(store_conversations.add_conversation_items)
    items = _method(store_conversations.load_items_page)
    item = _method(store_conversations.load_item)
    delete_item = _method(store_conversations.delete_conversation_item)


class StoredCompletions(_Stored):
    """The stored chat completions of a server. `store/completions.py` says what the methods do."""

    load = _method(store_completions.load_completion)
    update = _method(store_completions.update_completion)
    delete = _method(store_completions.delete_completion)
    messages = _method(store_completions.load_messages)
    search = _method(store_completions.search_completions)

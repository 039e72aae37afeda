"""All routes: which file has them, below which paths they are, and in which dialect their errors are told."""

from collections.abc import Callable
from typing import NamedTuple

from fastapi import FastAPI

from orchard.dialects.anthropic import errors as anthropic_errors
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai.responses import errors as responses_errors
from orchard.gateway.replies.errors import Fail
from orchard.gateway.routes import (
    anthropic,
    azure,
    chat,
    completions,
    conversations,
    embeddings,
    models,
    models_admin,
    responses,
    server,
    stats,
)
from orchard.gateway.routes.app_state import AppState


class RouteGroup(NamedTuple):
    """The routes that `add(app, state, prefix)` adds, below each of the prefixes; `fail` tells of their errors.

    `answers` are the ends of those paths that only ask for an answer: desktop apps may use them from origins of their
    own.
    """

    add: Callable[[FastAPI, AppState, str], None]
    fail: Fail
    prefixes: tuple[str, ...] = ("",)
    answers: tuple[str, ...] = ()


_OPENAI = ("/v1", "")
_AZURE = ("/openai", "/openai/v1")
_DEPLOYMENT = ("/openai/deployments/{deployment:path}",)
_AZURE_AI = ("/models",)

# Where two have the same address, the first one answers.
ROUTES: list[RouteGroup] = [
    RouteGroup(anthropic.add, anthropic_errors.fail, ("/v1", "/anthropic/v1"), ("/messages", "/messages/count_tokens")),
    RouteGroup(chat.add, openai_errors.fail, _OPENAI, ("/chat/completions",)),
    RouteGroup(completions.add, openai_errors.fail, _OPENAI, ("/completions",)),
    RouteGroup(embeddings.add, openai_errors.fail, _OPENAI, ("/embeddings",)),
    RouteGroup(models.add, openai_errors.fail, _OPENAI),
    RouteGroup(
        responses.add,
        responses_errors.fail,
        _OPENAI,
        ("/responses", "/responses/compact", "/responses/input_tokens"),
    ),
    RouteGroup(conversations.add, openai_errors.fail, _OPENAI),
    RouteGroup(chat.add, openai_errors.fail_azure, _AZURE),
    RouteGroup(completions.add, openai_errors.fail_azure, _AZURE),
    RouteGroup(embeddings.add, openai_errors.fail_azure, _AZURE),
    RouteGroup(models.add, openai_errors.fail_azure, _AZURE),
    RouteGroup(responses.add, responses_errors.fail_azure, _AZURE),
    RouteGroup(conversations.add, openai_errors.fail_azure, _AZURE),
    RouteGroup(chat.add, openai_errors.fail, _AZURE_AI),
    RouteGroup(embeddings.add, openai_errors.fail, _AZURE_AI),
    RouteGroup(azure.add, openai_errors.fail_azure, _DEPLOYMENT),
    RouteGroup(azure.add_responses, responses_errors.fail_azure, _DEPLOYMENT),
    RouteGroup(server.add, openai_errors.fail),
    RouteGroup(models_admin.add, openai_errors.fail),
    RouteGroup(stats.add, openai_errors.fail),
]

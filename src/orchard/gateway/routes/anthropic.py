"""Anthropic's Messages, and its list of models for requests with Anthropic's header."""

from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from orchard.core.tasks.generate import Generate
from orchard.dialects.anthropic import models as anthropic_models
from orchard.dialects.anthropic.messages.encode import MessagesEncoder, token_count
from orchard.dialects.anthropic.messages.parse import parse, parse_count
from orchard.dialects.anthropic.messages.schema import BODY
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.replies.errors import names_anthropic
from orchard.gateway.replies.warnings import unserved_tools_warning, warn
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import TEXT, object_schema, route_options

# The schema of its errors, for the OpenAPI document.
ERROR = object_schema(type={"const": "error"}, error=object_schema(type=TEXT, message=TEXT), request_id=TEXT)


class _AnthropicRoute(APIRoute):
    """A route that matches only Anthropic's clients. Others get the next route of the path, which is OpenAI's."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_ours = names_anthropic(scope) or scope["path"].startswith("/anthropic/")
        return super().matches(scope) if is_ours else (Match.NONE, {})


def add_anthropic_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes, which must precede OpenAI's routes of the same paths."""
    described = route_options(BODY.schema())
    stable = site.settings.stable_prompts

    @routes.post("/messages", **described)
    async def messages(http: Request) -> Response:
        """Answer a conversation: https://platform.claude.com/docs/en/api/messages/create."""
        body, header = await site.bodies.read(http), http.headers.get(PRIORITY_HEADER)
        call = parse(body, http.state.id, priority=header, stable_prompts=stable, default=site.pool.only_model())
        if call.unserved_tools:
            warn(http.scope, unserved_tools_warning(call.unserved_tools))
        return await site.answer(http, call.request, MessagesEncoder(call) if call.stream else call.complete)

    @routes.post("/messages/count_tokens", **described)
    async def count_tokens(http: Request) -> Response:
        """Count the tokens of a prompt: https://platform.claude.com/docs/en/api/messages/count_tokens."""
        body = await site.bodies.read(http)
        request = parse_count(body, http.state.id, stable_prompts=stable, default=site.pool.only_model())
        return await site.answer(http, site.overflow.limit_count(request), token_count)

    _add_model_routes(routes, site)


def _add_model_routes(routes: APIRouter, site: AppState) -> None:
    # The docs show OpenAI's routes of the same paths.
    hidden: dict[str, Any] = {"route_class_override": _AnthropicRoute, "include_in_schema": False}

    async def list_models(http: Request) -> dict[str, Any]:
        entries = site.pool.visible_entries(await run_in_threadpool(site.pool.registry.list_models))
        # Unlike OpenAI's list, this one can't show the kind of a model.
        served = [
            _describe_model(site, entry, name)
            for entry in entries
            if entry.serves(Generate)
            for name in (entry.id, *entry.aliases)
        ]
        return anthropic_models.page_of_models(served, http.query_params)

    async def get_model(model_id: str) -> dict[str, Any]:
        entry = site.pool.registry.find_local(model_id)
        return _describe_model(site, entry, entry.id)

    routes.add_api_route("/models", list_models, **hidden)
    routes.add_api_route("/models/{model_id:path}", get_model, **hidden)


def _describe_model(site: AppState, entry: ModelEntry, name: str) -> dict[str, Any]:
    model = site.pool.models.get(entry.id)
    able = model.status.usable_capabilities(entry.capabilities) if model else entry.capabilities
    return anthropic_models.describe_model(name, entry.context_window, entry.created, able)

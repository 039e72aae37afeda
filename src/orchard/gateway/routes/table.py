"""The table of all routes: their files, their path prefixes, and the dialects of their errors."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter

from orchard.core.tasks.rerank import Rerank
from orchard.dialects.anthropic import errors as anthropic_errors
from orchard.dialects.lmstudio import errors as lmstudio_errors
from orchard.dialects.ollama import errors as ollama_errors
from orchard.dialects.openai import errors as openai_errors
from orchard.dialects.openai import rerank
from orchard.dialects.openai.responses import errors as responses_errors
from orchard.gateway.replies.errors import Fail
from orchard.gateway.routes import (
    anthropic,
    azure,
    chat,
    completions,
    conversations,
    embeddings,
    images,
    lmstudio,
    lmstudio_v1,
    models,
    ollama,
    ollama_models,
    realtime,
    requests,
    responses,
    server,
    speech,
    transcriptions,
    voices,
)
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import OPENAI_ERROR
from orchard.gateway.routes.task_route import task_route


class RouteGroup(NamedTuple):
    """The routes that `add(routes, site)` adds below each of the prefixes; `fail` encodes their errors.

    `answers` are the ends of the paths that generate answers, which desktop apps may use from their own origins. `tag`:
    the section of the OpenAPI document for the routes of the first prefix; None: they are not shown. `error` is the
    schema of their errors.
    """

    add: Callable[[APIRouter, AppState], None]
    fail: Fail
    prefixes: tuple[str, ...] = ("",)
    answers: tuple[str, ...] = ()
    tag: str | None = None
    error: dict[str, Any] = OPENAI_ERROR


_OPENAI = ("/v1", "")
_COHERE = ("/v2",)
_AZURE = ("/openai", "/openai/v1")
_DEPLOYMENT = ("/openai/deployments/{deployment:path}",)
_AZURE_AI = ("/models",)
_LM_STUDIO = ("/api/v0",)

_RERANK = "Order documents by their relevance to a query: https://docs.cohere.com/reference/rerank."
_SCORE = "Score pairs of texts: https://docs.vllm.ai/en/latest/models/pooling_models/scoring."

# If two routes have the same URL, the first one answers.
ROUTES: list[RouteGroup] = [
    RouteGroup(
        anthropic.add_anthropic_routes,
        anthropic_errors.anthropic_error_answer,
        ("/v1", "/anthropic/v1"),
        ("/messages", "/messages/count_tokens"),
        "Anthropic",
        anthropic.ERROR,
    ),
    RouteGroup(chat.add_chat_routes, openai_errors.openai_error_answer, _OPENAI, ("/chat/completions",), "OpenAI"),
    RouteGroup(
        completions.add_completions_routes, openai_errors.openai_error_answer, _OPENAI, ("/completions",), "OpenAI"
    ),
    RouteGroup(
        embeddings.add_embeddings_routes, openai_errors.openai_error_answer, _OPENAI, ("/embeddings",), "OpenAI"
    ),
    RouteGroup(speech.add_speech_routes, openai_errors.openai_error_answer, _OPENAI, ("/audio/speech",), "OpenAI"),
    RouteGroup(voices.add_voices_routes, openai_errors.openai_error_answer, _OPENAI, (), "OpenAI"),
    RouteGroup(
        task_route("/rerank", _RERANK, Rerank, rerank.BODY, rerank.parse),
        openai_errors.openai_error_answer,
        _OPENAI,
        ("/rerank",),
        "Reranking",
    ),
    RouteGroup(
        task_route("/rerank", _RERANK, Rerank, rerank.BODY, partial(rerank.parse, version="2")),
        openai_errors.openai_error_answer,
        _COHERE,
        ("/rerank",),
    ),
    RouteGroup(
        task_route("/score", _SCORE, Rerank, rerank.BODY, rerank.parse),
        openai_errors.openai_error_answer,
        _OPENAI,
        ("/score",),
        "Reranking",
    ),
    RouteGroup(
        transcriptions.add_transcriptions_routes,
        openai_errors.openai_error_answer,
        _OPENAI,
        ("/audio/transcriptions", "/audio/translations"),
        "OpenAI",
    ),
    RouteGroup(
        images.add_images_routes,
        openai_errors.openai_error_answer,
        _OPENAI,
        ("/images/generations", "/images/edits"),
        "OpenAI",
    ),
    RouteGroup(images.add_kept_image_routes, openai_errors.openai_error_answer, tag="OpenAI"),
    RouteGroup(chat.add_chat_routes, openai_errors.openai_error_answer, _AZURE_AI),
    RouteGroup(embeddings.add_embeddings_routes, openai_errors.openai_error_answer, _AZURE_AI),
    RouteGroup(models.add_download_routes, openai_errors.openai_error_answer, tag="Server"),
    RouteGroup(models.add_models_routes, openai_errors.openai_error_answer, _OPENAI, tag="OpenAI"),
    RouteGroup(
        responses.add_responses_routes,
        responses_errors.responses_error_answer,
        _OPENAI,
        ("/responses", "/responses/compact", "/responses/input_tokens"),
        "OpenAI",
    ),
    RouteGroup(conversations.add_conversations_routes, openai_errors.openai_error_answer, _OPENAI, tag="OpenAI"),
    RouteGroup(realtime.add_realtime_routes, openai_errors.openai_error_answer, _OPENAI, ("/realtime",)),
    RouteGroup(realtime.add_realtime_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(chat.add_chat_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(completions.add_completions_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(embeddings.add_embeddings_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(speech.add_speech_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(transcriptions.add_transcriptions_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(images.add_images_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(models.add_models_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(responses.add_responses_routes, responses_errors.azure_responses_error_answer, _AZURE),
    RouteGroup(conversations.add_conversations_routes, openai_errors.azure_error_answer, _AZURE),
    RouteGroup(azure.add_deployment_routes, openai_errors.azure_error_answer, _DEPLOYMENT, tag="Azure OpenAI"),
    RouteGroup(
        azure.add_deployment_responses_routes,
        responses_errors.azure_responses_error_answer,
        _DEPLOYMENT,
        tag="Azure OpenAI",
    ),
    RouteGroup(
        transcriptions.add_deployment_transcriptions_routes,
        openai_errors.azure_error_answer,
        _DEPLOYMENT,
        tag="Azure OpenAI",
    ),
    RouteGroup(images.add_deployment_images_routes, openai_errors.azure_error_answer, _DEPLOYMENT, tag="Azure OpenAI"),
    RouteGroup(lmstudio.add_lmstudio_routes, openai_errors.openai_error_answer, _LM_STUDIO, tag="LM Studio"),
    RouteGroup(embeddings.add_embeddings_routes, openai_errors.openai_error_answer, _LM_STUDIO),
    RouteGroup(
        lmstudio_v1.add_lmstudio_v1_routes,
        lmstudio_errors.lmstudio_error_answer,
        ("/api/v1",),
        ("/api/v1/chat",),
        "LM Studio",
        lmstudio_v1.LMSTUDIO_ERROR,
    ),
    RouteGroup(
        ollama.add_ollama_routes,
        ollama_errors.ollama_error_answer,
        ("/api",),
        ("/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/show"),
        "Ollama",
        ollama.ERROR,
    ),
    RouteGroup(
        ollama_models.add_ollama_model_routes,
        ollama_errors.ollama_error_answer,
        ("/api",),
        tag="Ollama",
        error=ollama.ERROR,
    ),
    RouteGroup(server.add_server_routes, openai_errors.openai_error_answer, tag="Server"),
    RouteGroup(models.add_load_routes, openai_errors.openai_error_answer, tag="Server"),
    RouteGroup(requests.add_requests_routes, openai_errors.openai_error_answer, tag="Server"),
]

"""OpenAI's Images: generations, edits, and the images whose URLs answers contain."""

from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from orchard.core.tasks.images import EditImages, GenerateImages
from orchard.dialects.common.fields import PRIORITY_HEADER
from orchard.dialects.openai.images.encode import ImagesCall, ImagesEncoder
from orchard.dialects.openai.images.parse import parse, parse_edit, parse_edit_form
from orchard.dialects.openai.images.schema import BODY, EDIT_BODY, MAX_PICTURES
from orchard.gateway.http.body import is_json
from orchard.gateway.http.guard import KEPT_IMAGES
from orchard.gateway.media.uploads import FileFields
from orchard.gateway.replies.held_response import HeldResponse
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import PICTURE, route_options

_FILES = FileFields("image", {"image": MAX_PICTURES, "image[]": MAX_PICTURES, "mask": 1})
_FILE = {"type": "string", "format": "binary"}
_PICTURES = {
    "image": {"type": "array", "items": _FILE, "description": "The input images; also as `image[]`."},
    "mask": _FILE | {"description": "Where to paint: its transparent parts, or the white ones if none is transparent."},
}


def add_images_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.post("/images/generations", **route_options(BODY.schema()))
    async def images(http: Request) -> Response:
        """Generate images from a prompt: https://platform.openai.com/docs/api-reference/images."""
        return await generate_images(site, http)

    @routes.post("/images/edits", **edit_route_options())
    async def edits(http: Request) -> Response:
        """Edit images: https://platform.openai.com/docs/api-reference/images/createEdit."""
        return await edit_images(site, http)


def add_deployment_images_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes of an Azure deployment, which the prefix names."""

    @routes.post("/images/generations", **route_options(BODY.schema(deployment=True)))
    async def deployment_images(http: Request, deployment: str) -> Response:
        """Generate images from a prompt, with the model that the deployment names."""
        return await generate_images(site, http, deployment)

    @routes.post("/images/edits", **edit_route_options(deployment=True))
    async def deployment_edits(http: Request, deployment: str) -> Response:
        """Edit images, with the model that the deployment names."""
        return await edit_images(site, http, deployment)


def add_kept_image_routes(routes: APIRouter, site: AppState) -> None:
    """Add the route of the images whose URLs answers contain."""

    @routes.get(KEPT_IMAGES + "{name}", response_class=Response, responses={200: {"content": PICTURE}})
    async def kept_image(name: str) -> Response:
        """Return an image whose URL is in an answer. This needs no API key."""
        image = site.kept_images.find(name)
        headers = {"cache-control": "private, max-age=3600", "x-content-type-options": "nosniff"}
        return Response(image.data, headers=headers, media_type=image.media_type)


async def generate_images(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request. `model` overrides the model of the body. Raise OrchardError."""
    body = await site.bodies.read(http)
    header = http.headers.get(PRIORITY_HEADER)
    call = parse(body, http.state.id, header, model=model, default=site.pool.only_model(GenerateImages))
    return await _answer_images(site, http, call)


async def edit_images(site: AppState, http: Request, model: str | None = None) -> Response:
    """Answer a request, like `generate_images`. The files of a form are deleted after the response.

    Raise OrchardError.
    """
    header, default = http.headers.get(PRIORITY_HEADER), site.pool.only_model(EditImages)
    if is_json(http):
        body = await site.bodies.read(http)
        return await _answer_images(site, http, parse_edit(body, http.state.id, header, model=model, default=default))
    form = await site.uploads.read(http, _FILES)
    try:
        call = parse_edit_form(form.fields, form.files, http.state.id, header, model=model, default=default)
        return HeldResponse(await _answer_images(site, http, call), form.close)
    except BaseException:
        form.close()
        raise


async def _answer_images(site: AppState, http: Request, call: ImagesCall) -> Response:
    def keep(data: bytes, image_format: str) -> str:
        return f"{http.base_url}{KEPT_IMAGES[1:]}{site.kept_images.keep(data, image_format)}"

    answered = ImagesEncoder(call) if call.stream else partial(call.complete, keep)
    return await site.answer(http, call.request, answered)


def edit_route_options(*, deployment: bool = False) -> dict[str, Any]:
    """Return the arguments that describe a route for edits, as a form or as JSON."""
    fields = BODY.schema(deployment=deployment)
    required, properties = [*fields["required"], "image"], fields["properties"] | _PICTURES
    form = {**fields, "required": required, "properties": properties}
    return route_options(EDIT_BODY.schema(deployment=deployment), form=form)

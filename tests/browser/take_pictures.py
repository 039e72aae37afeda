"""Takes the pictures of docs/console.md: `make pictures`. Look at each of them afterwards."""

import contextlib
import re
import tempfile
from pathlib import Path
from threading import Thread

import httpx
from playwright.sync_api import Page, expect, sync_playwright

from orchard.gateway.models.registry import resolve_model
from tests.browser.conftest import ask, chromium, start_chat
from tests.demo.test_vision_model import BLUE_SQUARE, GREEN_TRIANGLE, RED_CIRCLE, drawn
from tests.support.serving import Server, serve

FOLDER = Path(__file__).parents[2] / "docs" / "console"
MODELS = ("demo", "demo-vision", "demo-whisper")


def main() -> None:
    """Take them all, light and dark."""
    models = [resolve_model(name) for name in MODELS]
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(models, spare=False, responses_path=f"{folder}/responses.db") as server,
        sync_playwright() as playwright,
    ):
        for name in MODELS:
            server.until(name, state="ready")
        Thread(target=_keep_busy, args=(server,), daemon=True).start()
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 720}, color_scheme="light")
        _converse(server, page)
        address = page.url
        for colours in ("light", "dark"):
            page.emulate_media(color_scheme=colours)
            page.goto(address)
            page.locator(".answer > footer").last.wait_for()
            _take(page, f"chat-{colours}")
            page.goto(f"{server.url}/#/server")
            expect(page.get_by_role("button", name="Unload demo-vision")).to_be_visible()
            _take(page, f"server-{colours}")
            page.get_by_role("tab", name="Requests").click()
            page.locator("canvas").last.wait_for()
            page.get_by_role("row", name="decode").first.wait_for()
            _take(page, f"requests-{colours}")
            page.goto(f"{server.url}/#/connect")
            page.get_by_label("Model of the snippets").select_option("demo")
            page.locator("summary").first.click()
            page.get_by_role("button", name="Test Chat Completions").click()
            page.get_by_text(re.compile("Works, in")).wait_for()
            _take(page, f"connect-{colours}")
        phone = browser.new_page(viewport={"width": 390, "height": 720}, has_touch=True)
        phone.goto(address)
        phone.locator(".answer > footer").last.wait_for()
        _take(phone, "phone")
        browser.close()


def _keep_busy(server: Server) -> None:
    """Send one request after the other until the server ends, so that there is something to see."""
    message = {"role": "user", "content": "Count from 1 to 20"}
    with contextlib.suppress(httpx.HTTPError):
        while True:
            body = {"model": "demo", "messages": [message], "n": 4}
            httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)


def _converse(server: Server, page: Page) -> None:
    page.goto(server.url)
    for text in ("Write a poem about the sea.", "How do I install Orchard?"):
        ask(page, text)
        start_chat(page)
    page.get_by_label("Model", exact=True).select_option("demo-vision")
    shapes = drawn(RED_CIRCLE, BLUE_SQUARE, GREEN_TRIANGLE)
    page.set_input_files("input[type=file]", {"name": "shapes.png", "mimeType": "image/png", "buffer": shapes})
    ask(page, "What is in the picture?")
    ask(page, "What colour is the circle?")
    page.get_by_role("button", name="Answer again").last.click()
    expect(page.get_by_text("2 / 2")).to_be_visible()


def _take(page: Page, name: str) -> None:
    page.wait_for_timeout(500)
    page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()

"""A real browser, Chromium, and real servers with the bundled models or with one that plays scripts.

The browser is the one that CHROMIUM names, or that is on the PATH. Without one, these tests fail: `make test` leaves
them out.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from orchard.gateway.models.registry import resolve_model
from tests.support.serving import Server, serve

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
expect.set_options(timeout=30_000)

OpenPage = Callable[..., Page]


def chromium() -> str:
    """The path of a Chromium."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert path, "no Chromium is here: install one (apt-get install chromium), or name it in CHROMIUM"
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    arguments = [
        "--no-sandbox",  # a container's root has none
        "--host-resolver-rules=MAP rebinding.example 127.0.0.1",
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
    ]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield running
        running.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the three bundled models, which keeps conversations in a file."""
    names = ("demo", "demo-vision", "demo-whisper")
    path = tmp_path_factory.mktemp("demo") / "responses.db"
    with serve([resolve_model(name) for name in names], spare=False, responses_path=str(path)) as running:
        for name in names:
            running.until(name, state="ready")
        yield running


@pytest.fixture(scope="session")
def scripted() -> Iterator[Server]:
    """A server whose model answers what the last message says."""
    with serve(spare=False) as running:
        running.until(state="ready")
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a page of a server, each time in a browser of its own; at the end, no page may have had an error, or have
    asked another server for anything."""
    contexts: list[BrowserContext] = []
    problems: list[str] = []

    def open_(server: Server, path: str = "/", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if is_problem(said.text, said.type) else None)
        page.on("request", lambda asked: problems.append(asked.url) if is_elsewhere(asked.url, server) else None)
        page.goto(server.url + path)
        page.wait_for_selector("main")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert problems == []


def is_problem(text: str, kind: str) -> bool:
    """Whether a line of the browser's console is one; that a request was refused is said there, too."""
    return kind in ("error", "warning") and not text.startswith("Failed to load resource")


def is_elsewhere(url: str, server: Server) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https", "ws", "wss") and parts.port != server.port


def ask(page: Page, text: str) -> None:
    """Send a message, and wait for the whole answer."""
    before = page.locator(".answer > footer").count()
    box = page.get_by_role("textbox", name="Message", exact=True)
    expect(box).to_have_attribute("placeholder", re.compile("Message .+"))  # the models are known
    box.fill(text)
    page.keyboard.press("Enter")
    page.locator(".answer > footer").nth(before).wait_for()


def start_chat(page: Page) -> None:
    """Begin another conversation: what belongs to the one before is gone when this returns."""
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".answer")).to_have_count(0)


def answers(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".answer .markdown").all_inner_texts()]


def questions(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".question .plain").all_inner_texts()]

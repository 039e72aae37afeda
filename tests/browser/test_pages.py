"""The pages as such: the keyboard, narrow screens, screen readers, how fast they are there, what they ask for."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from orchard.config import ModelSettings
from tests.browser.conftest import OpenPage, ask
from tests.support.hub import run_hub
from tests.support.model_folders import make_model, some_weights
from tests.support.serving import Server, serve

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PATHS = ["/", "/#/server", "/#/connect"]


def focused(page: Page) -> str:
    return str(
        page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.innerText || ''")
    )


def test_everything_is_done_with_the_keyboard(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_focused()
    page.keyboard.type("By keyboard.")
    page.keyboard.press("Enter")
    page.locator(".answer > footer").wait_for()
    page.keyboard.press("Tab")
    assert focused(page) == "Attach files"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Shift+Tab")
        seen.add(focused(page))
        if focused(page) == "Edit message":
            break
    assert {"Answer again", "Copy answer"} <= seen
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    page.keyboard.type("Edited.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("2 / 2")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("server")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Models")).to_be_visible()
    page.get_by_role("tab", name="Models").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Requests")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Control+k")
    page.keyboard.type("by key")
    expect(page.get_by_role("option", name=re.compile("By keyboard."))).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".question")).to_contain_text("Edited.")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+Shift+O")
    expect(page.get_by_role("heading", name="New chat")).to_be_visible()


def test_the_focus_is_never_lost(scripted: Server, open_page: OpenPage) -> None:
    """Otherwise the next key goes to the page, and the next Tab to its beginning."""
    page = open_page(scripted)
    ask(page, "One.")
    page.get_by_role("button", name="Answer again").press("Enter")
    expect(page.get_by_text("2 / 2")).to_be_visible()
    message = page.get_by_role("textbox", name="Message", exact=True)
    expect(message).to_be_focused()
    page.get_by_role("button", name="Edit message").press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Edit message")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("Two.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("3 / 3")).to_be_visible()
    expect(message).to_be_focused()
    page.get_by_role("button", name="Previous branch").press("Enter")
    expect(page.get_by_text("2 / 3")).to_be_visible()
    expect(page.get_by_role("button", name="Previous branch")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 / 3")).to_be_visible()
    expect(page.get_by_role("button", name="Next branch")).to_be_focused()  # there is no branch before this one
    page.get_by_role("button", name="Settings of this chat").press("Enter")
    expect(page.get_by_role("button", name="Close the settings")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Settings of this chat")).to_be_focused()
    expect(page.get_by_role("complementary")).to_have_count(0)


@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.parametrize("path", PATHS)
def test_narrow_screens(scripted: Server, open_page: OpenPage, path: str, width: int) -> None:
    page = open_page(scripted, path, viewport={"width": width, "height": 700}, has_touch=True)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    menu = page.get_by_role("button", name="Menu")
    menu.click()
    page.get_by_role("link", name="Connect").click()
    expect(page.get_by_role("heading", name="Connect", exact=True)).to_be_visible()
    expect(page.locator("nav.side")).not_to_have_class(re.compile("open"))


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("path", [*PATHS, "palette", "drawer"])
def test_axe_finds_nothing_serious(demo: Server, open_page: OpenPage, path: str, colours: str) -> None:
    low = {"width": 1200, "height": 300}  # what doesn't fit must be reached without a mouse
    page = open_page(demo, path if path in PATHS else "/", color_scheme=colours, bypass_csp=True, viewport=low)
    if path == "/":
        ask(page, "What is 12 + 30?")
    elif path == "palette":
        page.keyboard.press("Control+k")
    elif path == "drawer":
        page.get_by_role("button", name="Settings of this chat").click()
    else:
        page.locator("main details, main table").first.wait_for()
    for tab in page.get_by_role("tab").all() or [None]:
        if tab:
            tab.click()
            page.wait_for_timeout(400)
        page.add_script_tag(path=AXE)
        found = page.evaluate("axe.run().then(found => found.violations)")
        serious = [
            (each["id"], [node["html"] for node in each["nodes"]])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_a_chat_that_does_nothing_asks_for_nothing(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    ask(page, "Hello.")
    page.wait_for_timeout(1000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(4000)
    assert asked == []


def test_a_hidden_page_asks_for_nothing(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted, "/#/server")
    with page.expect_request("**/health"):
        page.wait_for_timeout(4000)
    hide = "hidden => { Object.defineProperty(document, 'hidden', {get: () => hidden, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    page.wait_for_timeout(500)  # for what was asked before
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(5000)
    assert asked == []
    with page.expect_request("**/health"):
        page.evaluate(hide, False)


def test_models_are_pinned_unloaded_and_loaded(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "/#/server")
    share = page.get_by_role("row", name="demo-whisper").get_by_role("progressbar", name="that all models may take")
    assert 0 < float(share.get_attribute("value") or 0) < float(share.get_attribute("max") or 0)
    for pinned in (True, False):
        page.get_by_role("button", name="Pin demo-whisper").click()
        expect(page.get_by_role("button", name="Pin demo-whisper", pressed=pinned)).to_be_visible()
        demo.until("demo-whisper", pinned=pinned)
    page.get_by_role("button", name="Unload demo-whisper").click()
    expect(page.get_by_role("button", name="Load demo-whisper", exact=True)).to_be_enabled()
    demo.until("demo-whisper", state="unloaded")
    page.get_by_role("button", name="Load demo-whisper", exact=True).click()
    expect(page.get_by_role("button", name="Unload demo-whisper")).to_be_enabled()
    demo.until("demo-whisper", state="ready")


def test_a_request_is_seen_and_cancelled(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    page.get_by_role("textbox", name="Message", exact=True).fill('{"text": "word ", "pieces": 10000, "interval": 0.05}')
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("word word")
    page.get_by_role("link", name="Server").click()
    page.get_by_role("tab", name="Requests").click()
    expect(page.get_by_role("row", name=re.compile("fake.*responses"))).to_be_visible()
    page.get_by_role("button", name="Cancel the request to fake").click()
    expect(page.get_by_text("Nothing runs or waits.")).to_be_visible()
    scripted.until(running=0)


def test_a_model_is_downloaded(open_page: OpenPage, tmp_path: Path) -> None:
    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path / "hub")
        (hub.repos["org/tiny"] / "model.safetensors").write_bytes(some_weights(5000))  # the hub holds large files back
        hub.uses["org/tiny"] = "text-generation"
        env = {**hub.env, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "cache")}
        models = (ModelSettings(model_path="demo", on_demand=True),)
        with serve((), models=models, env=env, spare=False, allow_download=True) as server:
            page = open_page(server, "/#/server")
            page.get_by_label("id of a model on the Hub").fill("no such")
            page.get_by_role("button", name="Search").click()
            expect(page.get_by_text("The Hub has no model in MLX's format for these words.")).to_be_visible()
            page.get_by_label("id of a model on the Hub").fill("tiny")
            page.keyboard.press("Enter")
            row = page.get_by_role("table", name="Models of the Hub").get_by_role("row", name="org/tiny")
            expect(row).to_contain_text(re.compile(r"chat[\d.]+ kByes"))
            hub.goes_on.clear()
            page.get_by_role("button", name="Download org/tiny").click()
            expect(page.get_by_role("progressbar", name="Download of org/tiny")).to_be_visible()
            page.get_by_role("tab", name="Log").click()  # and back: the bar is still there
            page.get_by_role("tab", name="Models").click()
            expect(page.get_by_role("progressbar", name="Download of org/tiny")).to_be_visible()
            hub.goes_on.set()
            expect(page.locator(".download")).to_contain_text("done")
            page.get_by_label("id of a model on the Hub").fill("tiny")
            page.keyboard.press("Enter")
            expect(row).to_contain_text("here")
            expect(page.get_by_role("button", name="Load org/tiny", exact=True)).to_be_visible()


def test_the_log_and_the_settings(open_page: OpenPage) -> None:
    with serve(spare=False) as server:  # the page shows the last 500 lines, and others' requests would fill them
        server.until(state="ready")
        page = open_page(server, "/#/server")
        # The server of a test doesn't know where its settings come from, and lists none.
        report = {"name": "responses_path", "value": ":memory:", "source": "command line"}
        page.route("**/v1/settings", lambda route: route.fulfill(json={"object": "list", "data": [report]}))
        page.reload()
        page.get_by_role("tab", name="Log").click()
        expect(page.get_by_role("log")).to_contain_text("fake is ready")
        page.get_by_label("Least level").select_option("error")
        expect(page.get_by_role("log")).not_to_contain_text("fake is ready")
        page.get_by_role("tab", name="Settings").click()
        page.get_by_label("Find a setting").fill("responses path")
        expect(page.get_by_role("row", name="responses_path")).to_contain_text(":memory:")


def test_a_server_that_may_not_download_says_so(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted, "/#/server")
    page.get_by_label("id of a model on the Hub").fill("org/tiny")
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_role("alert")).to_contain_text("--allow-download")


def test_snippets_have_this_servers_address_and_model(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "/#/connect")
    page.get_by_label("Model of the snippets").select_option("demo-vision")
    page.get_by_label("Find a client").fill("codex")
    entry = page.locator("details.client", has_text="config.toml")
    expect(entry).to_contain_text(f'base_url = "{demo.url}/v1"')
    expect(entry).to_contain_text('model = "demo-vision"')
    for name in ("Chat Completions", "Responses", "Messages (Anthropic)", "Ollama"):
        page.locator("summary", has_text=name).first.click()
        page.get_by_role("button", name=f"Test {name}").click()
        expect(page.locator("details.client", has_text=name).first.get_by_role("status")).to_contain_text("Works, in")


def test_snippets_name_models_of_every_kind_that_are_here(scripted: Server, open_page: OpenPage) -> None:
    kinds = {"embeddings": "my-vectors", "rerank": "my-order", "transcription": "my-ears", "speech": "my-voice"}
    kinds |= {"image": "my-brush", "text": "org/my-words"}
    page = open_page(scripted)

    def other_models(route: Route) -> None:
        (fake,) = route.fetch().json()["data"]
        data = [{**fake, "id": name, "root": name, "kind": kind} for kind, name in kinds.items()]
        for each in data[:-1]:
            each["architecture"] = {"input_modalities": ["text"], "output_modalities": ["other"]}
        route.fulfill(json={"object": "list", "data": data})

    page.route("**/v1/models", other_models)
    page.goto(f"{scripted.url}/#/connect")
    page.reload()
    expect(page.get_by_label("Model of the snippets")).to_have_value("org/my-words")
    snippets = page.locator("details.client pre")
    for name in kinds.values():
        expect(snippets.filter(has_text=name).first).to_be_attached()
    examples = re.compile(r"\bdemo|MiniLM|bge-|Qwen3|FLUX|127\.0\.0\.1:8000")
    expect(snippets.filter(has_text=examples)).to_have_count(0)

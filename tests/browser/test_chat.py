"""Conversations in the browser."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage, answers, ask, questions, start_chat
from tests.demo.test_vision_model import RED_CIRCLE, drawn
from tests.support.documents import pdf
from tests.support.serving import Server, serve
from tests.support.sounds import wav
from tests.support.spoken_words import recording

WEATHER_TOOL: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def script(**fields: Any) -> str:
    return json.dumps(fields)


def test_both_branches_survive_a_reload_and_are_in_another_browser(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo)
    ask(page, "My name is Ada.")
    ask(page, "What is 12 + 30?")
    assert "42" in answers(page)[1]
    page.get_by_role("button", name="Edit message").nth(1).click()
    page.get_by_role("textbox", name="Edit message").fill("What is 7 + 8?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer").nth(1)).to_contain_text("15")
    expect(page.get_by_text("2 / 2")).to_be_visible()
    page.reload()
    expect(page.get_by_text("2 / 2")).to_be_visible()
    assert questions(page) == ["My name is Ada.", "What is 7 + 8?"]
    page.get_by_role("button", name="Previous branch").click()
    expect(page.get_by_text("1 / 2")).to_be_visible()
    assert questions(page)[1] == "What is 12 + 30?"
    chosen = page.url
    page.reload()
    expect(page.get_by_text("1 / 2")).to_be_visible()  # the address says which branch
    other = open_page(demo)
    other.get_by_role("link", name="My name is Ada.").click()
    expect(other.get_by_text("2 / 2")).to_be_visible()
    other.goto(chosen)
    expect(other.get_by_text("1 / 2")).to_be_visible()
    ask(other, "And 1 + 1?")
    assert questions(other) == ["My name is Ada.", "What is 12 + 30?", "And 1 + 1?"]


def test_the_first_message_has_branches_too(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    ask(page, "One.")
    page.get_by_role("button", name="Answer again").click()
    expect(page.get_by_text("2 / 2")).to_be_visible()
    page.get_by_role("button", name="Edit message").click()
    page.get_by_role("textbox", name="Edit message").fill("Two.")
    page.keyboard.press("Enter")
    expect(page.get_by_text("3 / 3")).to_be_visible()
    page.reload()
    expect(page.get_by_text("3 / 3")).to_be_visible()
    expect(page.locator(".answer .markdown")).to_have_text("Two.")
    assert questions(page) == ["Two."]
    # The model sees one branch: the fake one counts messages.
    expect(page.locator(".answer")).to_contain_text("tokens")
    conversation = page.url.rsplit("/", 1)[1]
    listed = httpx.get(f"{scripted.url}/v1/conversations/{conversation}/responses?order=asc").json()["data"]
    assert [found["usage"]["input_tokens"] for found in listed] == [1, 1, 1]


def test_a_conversation_of_another_program_goes_on(scripted: Server, open_page: OpenPage) -> None:
    conversation = httpx.post(f"{scripted.url}/v1/conversations", json={}).json()["id"]
    for text in ("One.", "Two."):
        body = {"model": "fake", "input": text, "conversation": conversation}
        assert httpx.post(f"{scripted.url}/v1/responses", json=body).status_code == 200
    page = open_page(scripted, f"/#/c/{conversation}")
    page.locator(".answer > footer").nth(1).wait_for()
    assert questions(page) == ["One.", "Two."]
    ask(page, "Three.")
    assert page.get_by_role("button", name="Answer again").count() == 0
    listed = httpx.get(f"{scripted.url}/v1/conversations/{conversation}/responses?order=asc").json()["data"]
    assert [found["usage"]["input_tokens"] for found in listed] == [1, 3, 5]  # the fake model counts messages
    page.reload()
    page.locator(".answer > footer").nth(2).wait_for()
    assert questions(page) == ["One.", "Two.", "Three."]


def test_an_answer_is_stopped_and_keeps_what_it_has_said(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    page.get_by_role("textbox", name="Message", exact=True).fill(script(text="word ", pieces=10_000, interval=0.05))
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("word word word")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    said = answers(page)
    scripted.until(running=0)
    page.reload()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    assert answers(page)[0].startswith(said[0])
    ask(page, "Go on.")
    assert answers(page)[1] == "Go on."


def test_an_answer_goes_on_while_the_page_is_reloaded(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    page.get_by_role("textbox", name="Message", exact=True).fill(script(text="word ", pieces=60, interval=0.05))
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("word word")
    page.wait_for_url(re.compile("#/c/conv_"))
    page.reload()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.locator(".answer > footer").wait_for()
    assert answers(page)[0].count("word") == 60


def test_the_speed_is_that_of_an_answer_that_took_time(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    ask(page, "At once.")
    expect(page.locator(".answer > footer").last).not_to_contain_text("tokens/s")
    ask(page, script(text="word ", pieces=10, interval=0.1))
    expect(page.locator(".answer > footer").last).to_contain_text("tokens/s")


def test_a_failure_is_shown_and_can_be_tried_again(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    page.get_by_role("textbox", name="Message", exact=True).fill(script(text="x", fail="internal"))
    page.keyboard.press("Enter")
    expect(page.locator(".answer [role=alert]")).to_be_visible()
    page.get_by_role("button", name="Answer again").click()
    expect(page.get_by_text("2 / 2")).to_be_visible()


def test_a_dropped_picture_is_shown_to_a_model_that_sees(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.get_by_label("Model", exact=True).select_option("demo")
    data = page.evaluate_handle(
        """bytes => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "circle.png", {type: "image/png"}));
            return data;
        }""",
        list(drawn(RED_CIRCLE)),
    )
    page.dispatch_event("main", "dragover", {"dataTransfer": data})
    page.dispatch_event("main", "drop", {"dataTransfer": data})
    expect(page.get_by_text("demo-vision answers now")).to_be_visible()
    ask(page, "What is in the picture?")
    assert "red circle" in answers(page)[0].lower()
    page.reload()
    expect(page.get_by_role("img", name="Attached picture")).to_be_visible()
    expect(page.get_by_label("Model", exact=True)).to_have_value("demo-vision")


def test_a_recording_becomes_the_text_of_the_message(demo: Server, open_page: OpenPage, tmp_path: Path) -> None:
    file = tmp_path / "words.wav"
    file.write_bytes(wav((recording(1, 4).sound.clip(-1, 1) * 32767).astype("int16")))
    form = {"model": "demo-whisper"}
    files = {"file": ("words.wav", file.read_bytes())}
    heard = httpx.post(f"{demo.url}/v1/audio/transcriptions", data=form, files=files, timeout=60)
    page = open_page(demo)
    page.set_input_files("input[type=file]", file)
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_have_value(heard.json()["text"].strip())
    assert heard.json()["text"].strip()


def test_the_microphone_records(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, permissions=["microphone"])
    with page.expect_request("**/v1/audio/transcriptions") as asked:
        page.get_by_role("button", name="Record").click()
        page.wait_for_timeout(600)  # of sound
        page.get_by_role("button", name="End the recording").click()
    answer = asked.value.response()
    assert answer
    assert answer.status == 200


@pytest.mark.parametrize("name", ["note.md", "note.pdf"])
def test_a_document_is_read(demo: Server, open_page: OpenPage, tmp_path: Path, name: str) -> None:
    words = "apple " * 100
    (tmp_path / name).write_bytes(pdf(words) if name.endswith("pdf") else words.encode())
    page = open_page(demo)
    page.get_by_label("Model", exact=True).select_option("demo")
    page.set_input_files("input[type=file]", tmp_path / name)
    expect(page.get_by_role("list", name="Attached files")).to_contain_text(name)
    ask(page, "Hello")
    expect(page.locator(".question .chip")).to_have_text(name)
    conversation = page.url.rsplit("/", 1)[1]
    (found,) = httpx.get(f"{demo.url}/v1/conversations/{conversation}/responses").json()["data"]
    assert found["usage"]["input_tokens"] > 100


def test_a_tool_is_called_and_answered(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.get_by_label("Model", exact=True).select_option("demo")
    page.get_by_role("button", name="Settings of this chat").click()
    page.get_by_label("Tools, as in the Responses API").fill(json.dumps([WEATHER_TOOL]))
    page.get_by_role("button", name="Close the settings").click()
    ask(page, "What's the weather in Paris?")
    expect(page.locator(".answer .tool")).to_contain_text("Paris")
    page.get_by_label("Result of get_weather").fill("21 degrees and sunny")
    page.get_by_role("button", name="Send the result").click()
    expect(page.locator(".answer").nth(1)).to_contain_text("21")
    page.reload()
    expect(page.locator(".tool")).to_have_count(2)


def test_the_settings_are_sent_and_reasoning_is_folded(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.get_by_label("Model", exact=True).select_option("demo")
    page.get_by_role("button", name="Settings of this chat").click()
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_role("combobox", name="Reasoning").select_option("high")
    page.get_by_role("button", name="Close the settings").click()
    with page.expect_request("**/v1/responses") as asked:
        ask(page, "What is 12 + 30?")
    sent = asked.value.post_data_json
    assert (sent["instructions"], sent["temperature"], sent["reasoning"]) == ("Be brief.", 0.5, {"effort": "high"})
    thought = page.locator(".answer details.reasoning")
    expect(thought.locator("p")).to_be_hidden()
    thought.locator("summary").click()
    expect(thought.locator("p")).to_be_visible()
    page.reload()
    expect(thought.locator("p")).to_be_hidden()
    page.get_by_role("button", name="Settings of this chat").click()
    expect(page.get_by_label("System prompt")).to_have_value("Be brief.")  # the browser keeps them


def test_a_schema_shapes_the_answer_and_a_wrong_one_is_refused(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.get_by_label("Model", exact=True).select_option("demo")
    page.get_by_role("button", name="Settings of this chat").click()
    field = page.get_by_label("JSON schema of the answer")
    field.fill("{")
    page.get_by_role("textbox", name="Message", exact=True).fill("Is the sky blue?")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("JSON schema")
    verdict = {"enum": ["yes", "no"]}
    schema = {
        "type": "object",
        "properties": {"answer": verdict},
        "required": ["answer"],
        "additionalProperties": False,
    }
    field.fill(json.dumps(schema))
    ask(page, "Is the sky blue?")
    assert json.loads(answers(page)[0])["answer"] in ("yes", "no")


def test_what_a_model_writes_runs_and_fetches_nothing(scripted: Server, open_page: OpenPage) -> None:
    """`open_page` sees every request to another server."""
    hostile = "\n\n".join(
        [
            "<script>document.title = 'broken'</script><img src=x onerror=\"document.title = 'broken'\">",
            "[run](javascript:document.title='broken') [data](data:text/html,<script>1</script>) [ok](https://a.example/x)",
            "![picture](https://elsewhere.example/pixel.png) &lt;b&gt;",
            "```html\n<script>document.title = 'broken'</script>\n```",
            "| a | b |\n|---|---|\n| <svg onload=alert(1)> | `<i>` |",
        ]
    )
    page = open_page(scripted)
    ask(page, hostile)
    answer = page.locator(".answer .markdown")
    expect(answer).to_contain_text("<script>document.title")
    assert page.title() == "Orchard"
    assert answer.locator("script, svg:not(.icon), img, i, b").count() == 0
    links = answer.locator("a")
    assert [link.get_attribute("href") for link in links.all()] == [
        "https://a.example/x",
        "https://elsewhere.example/pixel.png",
    ]
    assert links.first.get_attribute("rel") == "noopener noreferrer"
    expect(answer.locator("pre .hljs-tag").first).to_be_visible()  # code is coloured without becoming HTML


def test_a_very_long_answer_is_shown_as_it_is(scripted: Server, open_page: OpenPage) -> None:
    """To read it as Markdown with each of its pieces, or to colour its code, would hold up the page for minutes."""
    page = open_page(scripted)
    ask(page, script(text="A **bold** word.\n\n", pieces=30_000))
    answer = page.locator(".answer").last
    expect(answer.locator(".plain")).to_contain_text("A **bold** word.\n\nA **bold** word.")
    ask(page, script(text="```python\n" + "x = 1\n" * 10_000))
    expect(page.locator(".answer").last.locator("pre")).to_contain_text("x = 1")
    page.wait_for_timeout(200)  # colours come 60 ms after the last piece
    assert page.locator(".answer").last.locator("pre span").count() == 0


def test_markdown_and_code(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted, permissions=["clipboard-read", "clipboard-write"])
    ask(page, "# Title\n\n- **bold** and `code`\n\n```python\nprint(1 < 2)\n```\n\n| a | b |\n|--|--|\n| 1 | 2 |")
    answer = page.locator(".answer .markdown")
    expect(answer.locator("h3")).to_have_text("Title")
    expect(answer.locator("li strong")).to_have_text("bold")
    expect(answer.locator("td").first).to_have_text("1")
    expect(answer.locator("pre .hljs-number").first).to_have_text("1")
    answer.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()") == "print(1 < 2)"


def test_conversations_are_found_renamed_exported_and_deleted(open_page: OpenPage) -> None:
    with serve(spare=False) as server:
        server.until(state="ready")
        page = open_page(server)
        ask(page, "Apples are red.")
        start_chat(page)
        ask(page, "Pears are green.")
        page.get_by_role("searchbox").fill("apples")
        expect(page.locator(".conversations a")).to_have_text(["Apples are red."])
        page.get_by_role("searchbox").fill("")
        expect(page.locator(".conversations a")).to_have_count(2)
        page.get_by_role("link", name="Apples are red.").hover()
        page.get_by_role("button", name="Rename Apples are red.").click()
        page.get_by_role("textbox", name="Name").fill("Fruit")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Fruit").click()
        expect(page.locator("h1")).to_have_text("Fruit")
        for kind in ("Markdown", "JSON"):
            page.keyboard.press("Control+k")
            page.get_by_role("combobox", name="Find").fill(kind)
            with page.expect_download() as saved:
                page.keyboard.press("Enter")
            assert "Apples are red." in Path(saved.value.path()).read_text()
        page.locator(".conversations li.current").hover()
        page.get_by_role("button", name="Delete Fruit").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(".conversations a")).to_have_text(["Pears are green."])
        assert len(httpx.get(f"{server.url}/v1/conversations").json()["data"]) == 1


def test_a_store_in_memory_says_so_to_everybody(
    demo: Server, scripted: Server, locked: Server, open_page: OpenPage
) -> None:
    note = "they are lost when the server stops"
    expect(open_page(scripted).locator("nav")).to_contain_text(note)
    page = open_page(locked)
    enter_key(page, "the-key")  # which doesn't read the settings
    expect(page.locator("nav")).to_contain_text(note)
    page = open_page(demo)
    with page.expect_response("**/health"):
        page.reload()
    expect(page.locator("nav")).not_to_contain_text(note)


def test_a_full_store_says_so(open_page: OpenPage) -> None:
    with serve(spare=False, responses_max_bytes=250_000) as server:
        server.until(state="ready")
        page = open_page(server)
        ask(page, "first " * 10_000)
        start_chat(page)
        page.get_by_role("textbox", name="Message", exact=True).fill("second " * 15_000)
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert").first).to_contain_text("delete", ignore_case=True)


@pytest.fixture
def locked() -> Any:
    with serve(api_keys=("the-key", "other-key"), admin_keys=("the-admin",), spare=False) as server:
        yield server


def enter_key(page: Page, key: str) -> None:
    page.get_by_role("textbox", name="API key").fill(key)
    page.get_by_role("button", name="Use this key").click()


def test_a_server_with_keys_asks_for_one(locked: Server, open_page: OpenPage) -> None:
    page = open_page(locked)
    expect(page.get_by_role("heading", name="This server asks for a key")).to_be_visible()
    enter_key(page, "wrong")
    expect(page.get_by_role("heading", name="This server asks for a key")).to_be_visible()
    enter_key(page, "the-key")
    ask(page, "Mine.")
    page.reload()
    expect(page.locator(".answer")).to_contain_text("Mine.")  # the tab still has the key
    assert page.evaluate("Object.values(localStorage).join().includes('the-key')") is False
    other = open_page(locked)
    enter_key(other, "other-key")
    expect(other.get_by_text("No conversations yet.")).to_be_visible()


def test_no_message_is_lost_when_the_key_becomes_wrong(locked: Server, open_page: OpenPage) -> None:
    page = open_page(locked)
    enter_key(page, "käy")  # no header can carry it
    expect(page.get_by_role("heading", name="This server asks for a key")).to_be_visible()
    enter_key(page, "the-key")
    message = page.get_by_role("textbox", name="Message", exact=True)
    expect(message).to_have_attribute("placeholder", "Message fake")
    for question in ("First.", "Second."):
        page.evaluate("sessionStorage.setItem('orchard.key', 'wrong')")
        message.fill(question)
        page.keyboard.press("Enter")
        enter_key(page, "the-key")
        if question == "First.":  # no conversation has it
            expect(message).to_have_value(question)
            message.press("Enter")
        else:
            page.get_by_role("button", name="Answer again").last.click()
        expect(page.locator(".answer").last).to_contain_text(question)
        page.locator(".answer > footer").nth(len(questions(page)) - 1).wait_for()
    assert questions(page) == ["First.", "Second."]


def test_a_draft_stays_while_another_page_is_shown(scripted: Server, open_page: OpenPage) -> None:
    page = open_page(scripted)
    message = page.get_by_role("textbox", name="Message", exact=True)
    message.fill("Half a thou")
    page.get_by_role("link", name="Server").click()
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(message).to_have_value("Half a thou")


def test_a_page_of_another_name_gets_nothing(scripted: Server, open_page: OpenPage) -> None:
    """A site may point its own name at this machine's address (DNS rebinding)."""
    page = open_page(scripted)
    answer = page.goto(f"http://rebinding.example:{scripted.port}/")
    assert answer
    assert answer.status == 403
    assert "rebinding.example" in page.content()
    assert page.locator("script").count() == 0

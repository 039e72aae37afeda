"""The console in Firefox and in WebKit, Safari's engine, where Debian's are: firefox-esr; webkit2gtk-driver and xvfb.

Both are driven in their own ways, because geckodriver, which Selenium needs for Firefox, is no package.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest

from tests.support.serving import Server, unused_port

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
WEBKIT = next(Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser"), None)
WEBKIT_DRIVER, SCREEN = shutil.which("WebKitWebDriver"), shutil.which("Xvfb")
SECONDS = 60
ENTER = "\ue007"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's id in WebDriver."""


class Browser(Protocol):
    def navigate(self, url: str) -> None: ...
    def run(self, script: str) -> Any: ...
    def type(self, selector: str, text: str) -> None: ...


class Firefox:
    """Speaks Marionette: a length, a colon, and `[0, number, command, parameters]` or `[1, number, error, result]`."""

    def __init__(self, port: int) -> None:
        self._socket = connect(port)
        self._stream = self._socket.makefile("rb")
        self._read()  # it introduces itself
        self._ask("NewSession")

    def navigate(self, url: str) -> None:
        self._ask("Navigate", url=url)

    def run(self, script: str) -> Any:
        return self._ask("ExecuteScript", script=script, args=[])["value"]

    def type(self, selector: str, text: str) -> None:
        found = self._ask("FindElement", using="css selector", value=selector)["value"]
        self._ask("ElementSendKeys", id=found[ELEMENT], text=text)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _ask(self, command: str, **parameters: Any) -> Any:
        message = json.dumps([0, 1, f"WebDriver:{command}", parameters])
        self._socket.sendall(f"{len(message)}:{message}".encode())
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def _read(self) -> Any:
        length = b""
        while (digit := self._stream.read(1)) != b":":
            length += digit
        return json.loads(self._stream.read(int(length)))


class WebKit:
    """Speaks WebDriver."""

    def __init__(self, port: int) -> None:
        connect(port).close()
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS)
        options = {"binary": str(WEBKIT), "args": ["--automation"]}
        capabilities = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
        self._path = "/session/" + self._ask("/session", capabilities=capabilities)["sessionId"]

    def navigate(self, url: str) -> None:
        self._ask(f"{self._path}/url", url=url)

    def run(self, script: str) -> Any:
        return self._ask(f"{self._path}/execute/sync", script=script, args=[])

    def type(self, selector: str, text: str) -> None:
        found = self._ask(f"{self._path}/element", using="css selector", value=selector)
        self._ask(f"{self._path}/element/{found[ELEMENT]}/value", text=text)

    def close(self) -> None:
        self._client.delete(self._path)
        self._client.close()

    def _ask(self, path: str, **parameters: Any) -> Any:
        answer = self._client.post(path, json=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


def connect(port: int) -> socket.socket:
    """Wait until somebody listens."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), SECONDS)
        except OSError:
            assert time.monotonic() < end, f"nobody listens on port {port}"
            time.sleep(0.05)


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Browser]:
    (tmp_path / "user.js").write_text(f'user_pref("marionette.port", {(port := unused_port())});')
    command = [str(FIREFOX), "--headless", "--marionette", "--no-remote", "--profile", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            browser = Firefox(port)
            yield browser
            browser.close()
        finally:
            process.terminate()


@pytest.fixture
def webkit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    screen = [str(SCREEN), "-displayfd", "1", "-nolisten", "tcp"]
    with subprocess.Popen(screen, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as shown:
        assert shown.stdout
        monkeypatch.setenv("DISPLAY", f":{shown.stdout.readline().strip()}")
        command = [str(WEBKIT_DRIVER), f"--port={(port := unused_port())}"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                browser = WebKit(port)
                yield browser
                browser.close()
            finally:
                process.terminate()
                shown.terminate()


@pytest.fixture(
    params=[
        pytest.param("firefox", marks=pytest.mark.skipif(not FIREFOX, reason="no Firefox is here")),
        pytest.param(
            "webkit", marks=pytest.mark.skipif(not (WEBKIT and WEBKIT_DRIVER and SCREEN), reason="no WebKit is here")
        ),
    ]
)
def other_browser(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def until(browser: Browser, condition: str) -> None:
    """Wait until an expression of JavaScript is true in the page."""
    end = time.monotonic() + SECONDS
    while not browser.run(f"return Boolean({condition})"):
        assert time.monotonic() < end, browser.run("return document.body.innerText")
        time.sleep(0.05)


def count(selector: str) -> str:
    return f"document.querySelectorAll({selector!r}).length"


def test_a_conversation_and_all_pages(scripted: Server, other_browser: Browser) -> None:
    browser = other_browser
    browser.navigate(scripted.url)
    until(browser, "document.querySelector('.composer textarea')?.placeholder === 'Message fake'")
    browser.type(".composer textarea", f"Some **bold** text and `code`.{ENTER}")
    until(browser, f"{count('.answer > footer')} === 1")
    assert browser.run("return document.querySelector('.answer strong').innerText") == "bold"
    browser.type(".composer textarea", f"Again.{ENTER}")
    until(browser, f"{count('.answer > footer')} === 2")
    address = browser.run("return location.href")
    browser.navigate(f"{scripted.url}/#/server")
    until(browser, "document.querySelector('#panel table')?.innerText.includes('fake')")
    for tab in ("Requests", "Cache", "Log", "Settings"):
        browser.run(f"document.querySelector('#tab-{tab}').click()")
        until(browser, f"document.querySelector('#panel').getAttribute('aria-labelledby') === 'tab-{tab}'")
        assert browser.run("return document.querySelector('[role=alert]')?.innerText ?? ''") == ""
    browser.navigate(f"{scripted.url}/#/connect")
    until(browser, f"{count('details.client')} > 10")
    browser.navigate(address)  # the server has both answers
    until(browser, f"{count('.answer > footer')} === 2")

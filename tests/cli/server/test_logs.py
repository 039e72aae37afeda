"""`orchard logs`, against a server whose model plays scripts."""

import os
import signal
import subprocess
import sys

import httpx

from tests.support.command import clean, orchard, refused
from tests.support.serving import FAKE, Server, serve


def test_the_last_lines(server: Server) -> None:
    server.until(state="ready")
    httpx.get(f"{server.url}/v1/models")
    lines = orchard("logs", "--url", server.url, "-n", "2").stdout.splitlines()
    assert len(lines) == 2
    assert " INFO     orchard.access GET /v1/models 200 " in lines[-1]
    assert orchard("logs", "--url", server.url, "--level", "critical").stdout == ""


def test_new_lines_follow_until_ctrl_c(server: Server) -> None:
    command = [sys.executable, "-m", "orchard", "logs", "-f", "-n", "1", "--url", server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean()) as process:
        assert process.stdout
        try:
            httpx.get(f"{server.url}/v1/models")
            process.stdout.readline()  # it has begun
            httpx.get(f"{server.url}/v1/nothing%1b[31m")
            while "/v1/nothing" not in (line := process.stdout.readline()):
                assert line
            assert "\x1b" not in line
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()


def test_only_an_admin_key_sees_them() -> None:
    with serve([FAKE], api_keys=("user-key",)) as server:
        assert "take an admin key" in refused(orchard("logs", "--url", server.url, "--api-key", "user-key"))

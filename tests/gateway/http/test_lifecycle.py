"""What happens to requests when processes and connections die under them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from typing import Any

import httpx
import psutil
import pytest

from tests.support.gateway_client import Stream, body, chat, streamed
from tests.support.serving import FAKE, Server, serve


async def test_a_killed_worker_ends_its_callers_at_once_and_comes_back() -> None:
    with serve() as server:
        before = server.until(state="ready")
        callers = [asyncio.create_task(_stream_to_the_end(server)) for _ in range(16)]
        whole = [asyncio.create_task(chat(server, pieces=50, interval=0.02)) for _ in range(16)]
        await asyncio.to_thread(server.until, running=32)
        async with streamed(server, pieces=1000, interval=0.01) as stream:
            await stream.read(until=1)  # so that the others have begun, too
            os.kill(before["pid"], signal.SIGKILL)
            streams = [await stream.read(), *await asyncio.gather(*callers)]
        for one in streams:
            assert one.error
            assert "ended by SIGKILL" in one.error["message"]
        for response in await asyncio.gather(*whole):  # nobody has seen anything of these: the next process has them
            assert response.json()["choices"][0]["message"]["content"] == "x" * 50
        assert (await chat(server, text="again")).json()["choices"][0]["message"]["content"] == "again"
        after = server.health()
        assert after["state"] == "ready"
        assert after["pid"] != before["pid"]


async def test_requests_that_come_while_the_worker_dies_are_served_by_the_next() -> None:
    with serve() as server:
        pid = server.until(state="ready")["pid"]
        os.kill(pid, signal.SIGKILL)
        answers = await asyncio.gather(*(chat(server, text="hello") for _ in range(32)))
        assert [answer.status_code for answer in answers] == [200] * 32


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="needs Linux's prlimit")
def test_a_worker_that_cannot_be_started_is_a_failed_model_until_it_can() -> None:
    with serve() as server:
        pid = server.until(state="ready")["pid"]
        gateway = psutil.Process(server.process.pid)
        # One more connection may come, but there is no room for a worker's socket and pipes.
        gateway.rlimit(psutil.RLIMIT_NOFILE, (gateway.num_fds() + 1, 4096))
        os.kill(pid, signal.SIGKILL)
        server.until(state="failed")
        url = f"{server.url}/v1/chat/completions"
        refused = httpx.post(url, json=body(), timeout=30)
        assert refused.status_code == 500
        assert "can't be started" in refused.json()["error"]["message"]
        assert server.health()["state"] == "failed"
        gateway.rlimit(psutil.RLIMIT_NOFILE, (4096, 4096))
        httpx.post(f"{server.url}/v1/models/fake/load", timeout=30).raise_for_status()
        assert httpx.post(url, json=body(text="hello"), timeout=30).status_code == 200


async def _stream_to_the_end(server: Server) -> Stream:
    async with streamed(server, pieces=1000, interval=0.01) as stream:
        return await stream.read()


async def test_one_models_crash_leaves_another_alone() -> None:
    with serve([FAKE, FAKE.__class__("other", "fake", None, "fake")]) as server:
        async with streamed(server, model="other", pieces=50, interval=0.01) as stream:
            await stream.read(until=1)
            refused = await chat(server, crash=True)
            assert refused.status_code == 503
            assert "ended by SIGKILL" in refused.json()["error"]["message"]
            await stream.read()
            assert stream.text == "x" * 50


async def test_a_client_that_leaves_a_stream_frees_its_row(server: Server) -> None:
    async with streamed(server, pieces=10_000, interval=0.01) as stream:
        await stream.read(until=1)
        server.until(running=1)
    await asyncio.to_thread(server.until, running=0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_answer_frees_its_row(server: Server, stream: bool) -> None:
    request = asyncio.create_task(chat(server, stream=stream, pieces=0, delay=60))
    await asyncio.to_thread(server.until, running=1)
    request.cancel()
    await asyncio.to_thread(server.until, running=0)


async def test_a_client_that_leaves_while_the_model_loads_is_forgotten() -> None:
    with serve([FAKE.__class__("fake", "slow", None, "fake")]) as server:
        request = asyncio.create_task(chat(server, pieces=10_000, interval=0.01))
        await asyncio.to_thread(server.until, waiting=1)
        request.cancel()
        await asyncio.to_thread(server.until, waiting=0)
        assert server.until(state="ready")["running"] == 0


async def test_clients_that_stop_reading_do_not_fill_the_memory() -> None:
    script: dict[str, Any] = {"pieces": 300, "text": "x" * 10_000, "interval": 0.005}  # 4 MiB unread would end it
    content = json.dumps(body(stream=True, **script)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n"
    request = head.encode() + b"content-type: application/json\r\nconnection: close\r\n\r\n" + content
    with serve() as server:
        server.until(state="ready")
        gateway = psutil.Process(server.process.pid)
        before = gateway.memory_info().rss
        stalled = [_connected(server) for _ in range(8)]
        for sock in stalled:
            sock.sendall(request)
        await asyncio.to_thread(server.until, running=8)
        async with streamed(server, **script) as stream:
            await stream.read()  # so the model has had the time for the others, too
        grown = gateway.memory_info().rss - before
        answers = await asyncio.gather(*(asyncio.to_thread(_read_all, sock) for sock in stalled))
        assert grown < 12 * 2**20  # what the system's own buffers hold does not count
        assert all(b"data: [DONE]" in answer for answer in answers)
        assert all(answer.count(b"x" * 10_000) == 300 for answer in answers)


def _connected(server: Server) -> socket.socket:
    """Connect with a small window, so that the system buffers little of an answer."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", server.port))
    return sock


def _read_all(sock: socket.socket) -> bytes:
    with sock, sock.makefile("rb") as file:
        return file.read()


async def test_sigterm_lets_a_running_stream_finish() -> None:
    with serve() as server:
        async with streamed(server, pieces=50, interval=0.01) as stream:
            await stream.read(until=1)
            server.process.send_signal(signal.SIGTERM)
            await stream.read()
            assert (stream.text, stream.error) == ("x" * 50, None)
        assert await asyncio.to_thread(server.process.wait, 10) == 0
        with pytest.raises(httpx.ConnectError):
            await chat(server)


async def test_sigterm_ends_a_stream_that_takes_too_long() -> None:
    with serve(shutdown_grace=0.3) as server:
        async with streamed(server, pieces=10_000, interval=0.01) as stream:
            await stream.read(until=1)
            server.process.send_signal(signal.SIGTERM)
            await stream.read()
            assert stream.error
            assert "shutting down" in stream.error["message"]
        assert await asyncio.to_thread(server.process.wait, 10) == 0


async def test_a_second_ctrl_c_ends_what_the_first_waits_for(capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as server:
        async with streamed(server, pieces=10_000, interval=0.01) as stream:
            await stream.read(until=1)
            whole = asyncio.create_task(chat(server, pieces=10_000, interval=0.01))
            await asyncio.to_thread(server.until, running=2)
            server.process.send_signal(signal.SIGINT)
            await _closed(server)
            await stream.read(until=len(stream.text) + 5)
            assert stream.error is None
            server.process.send_signal(signal.SIGINT)
            await stream.read()
            assert stream.error
            assert "shutting down" in stream.error["message"]
            assert (await whole).status_code == 503
        assert await asyncio.to_thread(server.process.wait, 10) == 0
    logged = capfd.readouterr().err
    assert "waiting for 2 requests; Ctrl-C again stops now" in logged
    assert "ERROR" not in logged
    assert "Traceback" not in logged


async def _closed(server: Server) -> None:
    """Wait until nobody is let in any more."""
    with contextlib.suppress(OSError):
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.close()
            await asyncio.sleep(0.02)


async def test_a_second_ctrl_c_does_not_wait_for_a_client_that_does_not_read(capfd: pytest.CaptureFixture[str]) -> None:
    with serve() as server:
        async with streamed(server, pieces=1000, text="x" * 100_000):
            await asyncio.to_thread(server.until, running=1)
            server.process.send_signal(signal.SIGINT)
            await _closed(server)
            server.process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(server.process.wait, 15) == 0
    logged = capfd.readouterr().err
    assert "waiting for 1 request; Ctrl-C again stops now" in logged
    assert "ERROR" not in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_while_they_start_is_no_error(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    with serve() as server:
        while server.health()["pid"] is None:
            pass
        os.killpg(server.process.pid, number)
        assert server.process.wait(30) == 0
    logged = capfd.readouterr().err
    assert "ERROR" not in logged
    assert "Traceback" not in logged


async def test_a_worker_does_not_outlive_its_gateway() -> None:
    with serve() as server:
        worker = psutil.Process(server.until(state="ready")["pid"])
        server.process.kill()
        await asyncio.to_thread(worker.wait, 10)


async def test_a_machine_sleeps_and_wakes() -> None:
    """All processes stop longer than a worker may be silent, and a client's connection dies meanwhile."""
    with serve(watchdog_timeout=2) as server:
        pid = server.until(state="ready")["pid"]
        async with streamed(server, pieces=4, interval=0.2) as stream, contextlib.AsyncExitStack() as lost:
            await lost.enter_async_context(streamed(server, pieces=1000, interval=0.2))
            await stream.read(until=1)
            processes = [psutil.Process(number) for number in (pid, server.process.pid)]
            for process in processes:
                process.suspend()
            await lost.aclose()
            await asyncio.sleep(2.3)  # as long as the machine sleeps
            for process in processes:
                process.resume()
            await stream.read()
            assert (stream.text, stream.error) == ("xxxx", None)
        assert server.until(running=0)["pid"] == pid


async def test_256_connections_at_once() -> None:
    with serve() as server:
        server.until(state="ready")
        async with httpx.AsyncClient(timeout=30, limits=httpx.Limits(max_connections=256)) as client:

            async def caller(index: int) -> str:
                script = body(text=f"<{index}>", pieces=3, interval=1.0)  # so long that all have come
                response = await client.post(f"{server.url}/v1/chat/completions", json=script)
                content: str = response.json()["choices"][0]["message"]["content"]
                return content

            callers = [asyncio.create_task(caller(index)) for index in range(256)]
            await asyncio.to_thread(server.until, running=256)
            answers = await asyncio.gather(*callers)
        assert answers == [f"<{index}>" * 3 for index in range(256)]


def test_connections_wait_in_the_backlog() -> None:
    """256 sockets connect before the server has had a chance to accept any."""
    with serve() as server:
        server.process.send_signal(signal.SIGSTOP)
        sockets = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(256)]
        server.process.send_signal(signal.SIGCONT)
        for sock in sockets:
            sock.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        replies = [sock.recv(15) for sock in sockets]
        for sock in sockets:
            sock.close()
        assert replies == [b"HTTP/1.1 200 OK"] * 256


async def test_bad_requests_leave_running_streams_alone(server: Server) -> None:
    async with streamed(server, pieces=100, interval=0.01) as stream:
        await stream.read(until=1)
        async with httpx.AsyncClient(timeout=30) as client:
            for content in (b"{", b"[" * 200_000, b'{"model":"fake","messages":[]}', b" " * 40_000_000):
                reply = await client.post(f"{server.url}/v1/chat/completions", content=content)
                assert 400 <= reply.status_code < 500
            refused = await client.post(f"{server.url}/v1/chat/completions", json=body(refuse="invalid_request"))
            assert refused.status_code == 400
        await stream.read()
        assert (stream.text, stream.error) == ("x" * 100, None)

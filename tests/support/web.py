"""A web server that answers as a test says, byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

Answer = bytes | Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Web:
    """A server on 127.0.0.1; `answers` has what it sends for each path, `requests` what was asked for."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        self.answers = answers
        self.requests: list[str] = []
        self.left: asyncio.Queue[str] = asyncio.Queue()
        """The paths of requests whose clients have gone."""
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        self.requests.append(head)
        answer = self.answers.get(path, not_found())
        try:
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                gone = asyncio.create_task(reader.read())
                said = asyncio.create_task(answer(writer))
                await asyncio.wait({gone, said}, return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                said.cancel()
        except ConnectionError:
            pass
        finally:
            writer.close()
            self.left.put_nowait(path)


@asynccontextmanager
async def web(answers: dict[str, Answer], tls: SSLContext | None = None) -> AsyncIterator[Web]:
    """Serve the answers."""
    site = Web(answers)
    server = await asyncio.start_server(site.handle, "127.0.0.1", 0, ssl=tls)
    async with server:
        site.port = server.sockets[0].getsockname()[1]
        yield site


def found(body: bytes, media_type: str = "image/png", status: str = "200 OK", **headers: str) -> bytes:
    """An answer; a header is named with underscores."""
    given = {"content-type": media_type, "content-length": str(len(body))}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in given.items() if value]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def moved(location: str, status: str = "302 Found") -> bytes:
    return found(b"", status=status, location=location)


def not_found() -> bytes:
    return found(b"no", "text/plain", "404 Not Found")

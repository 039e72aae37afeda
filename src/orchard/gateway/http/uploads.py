"""Reading forms with a file (multipart/form-data): the file goes to the disk as it arrives, never whole into memory."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.http.body import drain
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.http.upload_folder import UploadFolder, no_room

LEAST_RATE = 32 * 1024
"""Bytes a second that a client must send on average, once the time limit of other bodies is over."""
MOST_FIELD_BYTES = 2**20
_MOST_PARTS = 128
_WRITTEN_AT_ONCE = 2**20
_UPLOADS_AT_ONCE = 4  # of the largest size


class FormFile(Struct):
    """A file that was uploaded, where it lies on the disk, and its size in bytes."""

    path: Path
    size: int = 0


class Form(Struct):
    """What a form holds: the values of its fields by name, and its file, if it has one. `close` deletes the file."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    file: FormFile | None = None
    on_close: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Delete the file."""
        if self.file:
            self.file.path.unlink(missing_ok=True)
        self.on_close()


class UploadReader:
    """Reads the forms of one server's requests."""

    def __init__(self, settings: Settings, folder: UploadFolder) -> None:
        self._limit = settings.max_upload_bytes
        self._timeout = settings.body_timeout
        self._folder = folder
        self._budget = Budget(_UPLOADS_AT_ONCE * self._limit, "uploads")

    async def read(self, http: Request, name: str) -> Form:
        """Return a form whose file, if it has one, is in the field `name`; the caller closes it.

        Raise OrchardError: payload_too_large, timeout, overloaded if uploads take too much of the disk already,
        unavailable if the disk is full, cancelled if the client leaves, invalid_request if it is no such form.
        """
        parts = _Parts(_boundary(http), name, self._folder, self._limit, Share(self._budget))
        chunks = http.stream()
        try:
            if int(http.headers.get("content-length", 0)) > self._limit + MOST_FIELD_BYTES + _WRITTEN_AT_ONCE:
                raise parts.too_large()
            await self._receive(chunks, parts)
        except BaseException as error:
            parts.form.close()
            # A client that asks first has not begun to send.
            if isinstance(error, OrchardError) and "expect" not in http.headers:
                with contextlib.suppress(ClientDisconnect):
                    await drain(chunks)
            raise
        finally:
            parts.end()
        return parts.form

    async def _receive(self, chunks: Any, parts: "_Parts") -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        received = 0
        try:
            async with asyncio.timeout(self._timeout) as limit:
                async for chunk in chunks:
                    parts.feed(chunk)
                    if parts.is_full:
                        await parts.write()
                    received += len(chunk)
                    limit.reschedule(begin + self._timeout + received / LEAST_RATE)
                limit.reschedule(None)
            parts.check_complete()
            await parts.write()
        except ClientDisconnect:
            raise OrchardError("cancelled", "the client closed the connection") from None
        except TimeoutError:
            message = f"the upload took more than {self._timeout:g} seconds, and came at less than"
            raise OrchardError("timeout", f"{message} {LEAST_RATE // 1024} KiB a second") from None
        except OSError as error:
            raise no_room(error) from None


class _Parts:
    """The parts of a form as they arrive. What of the file is not on the disk yet is in memory."""

    def __init__(self, boundary: bytes, name: str, folder: UploadFolder, limit: int, share: Share) -> None:
        self.form = Form(on_close=lambda: share.take(0))
        self._name = name
        self._folder = folder
        self._limit = limit
        self._share = share
        self._number = -1
        self._pending = bytearray()
        self._field_bytes = self._count = 0
        self._complete = self._closed = False
        self._writing = threading.Lock()
        self._begin_part()
        names = ("part_begin", "part_data", "part_end", "header_field", "header_value", "header_end")
        calls = {f"on_{one}": getattr(self, f"_{one}") for one in names}
        calls |= {"on_headers_finished": self._headers_finished, "on_end": self._end}
        self._parser = MultipartParser(boundary, calls)  # type: ignore[arg-type]

    @property
    def is_full(self) -> bool:
        """Whether so much is in memory that it should be written."""
        return len(self._pending) >= _WRITTEN_AT_ONCE

    def too_large(self) -> OrchardError:
        """Return the error of a file that is too large."""
        message = f"`{self._name}` is over the limit of {self._limit} bytes"
        return OrchardError("payload_too_large", message, param=self._name)

    def feed(self, chunk: bytes) -> None:
        """Parse the next piece of the body. Raise OrchardError."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _broken(str(error)) from None

    async def write(self) -> None:
        """Write what is in memory. Raise OSError."""
        pending, self._pending = self._pending, bytearray()
        if pending:
            await asyncio.to_thread(self._write, pending)

    def _write(self, pending: bytearray) -> None:
        with self._writing:  # whoever waited for this may be gone, and the file be closed
            while pending and not self._closed:
                del pending[: os.write(self._number, pending)]

    def check_complete(self) -> None:
        """Raise OrchardError where the form has no end."""
        if not self._complete:
            raise _broken("it ends too early")

    def end(self) -> None:
        """Close the file."""
        with self._writing:
            self._closed = True
            if self._number >= 0:
                os.close(self._number)

    def _begin_part(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value = b"", b""
        self._field: str | None = None
        self._is_file = False
        self._data = bytearray()

    def _part_begin(self) -> None:
        self._count += 1
        if self._count > _MOST_PARTS:
            raise OrchardError("invalid_request", f"the form has more than {_MOST_PARTS} parts")
        self._begin_part()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise _broken("a part has no name")
        self._field = options[b"name"].decode(errors="replace")
        self._is_file = b"filename" in options
        if not self._is_file:
            return
        if self._field != self._name or self.form.file:
            message = f"the form must have one file, in the field `{self._name}`"
            raise OrchardError("invalid_request", message, param=self._field)
        self._number, path = self._folder.new_file()
        self.form.file = FormFile(path)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        size = end - start
        if self._is_file and self.form.file:
            self.form.file.size += size
            if self.form.file.size > self._limit:
                raise self.too_large()
            self._share.take(self.form.file.size)
            self._pending += memoryview(data)[start:end]
            return
        self._field_bytes += size
        if self._field_bytes > MOST_FIELD_BYTES:
            message = f"the fields besides `{self._name}` have more than {MOST_FIELD_BYTES} bytes"
            raise OrchardError("payload_too_large", message, param=self._field)
        self._data += data[start:end]

    def _part_end(self) -> None:
        if self._field is None or self._is_file:
            return
        try:
            value = self._data.decode()
        except UnicodeDecodeError:
            raise OrchardError("invalid_request", f"`{self._field}` is not UTF-8", param=self._field) from None
        self.form.fields.setdefault(self._field, []).append(value)

    def _end(self) -> None:
        self._complete = True


def _boundary(http: Request) -> bytes:
    """Return what separates the parts of a form. Raise OrchardError (invalid_request) where the body is no form."""
    given = http.headers.get("content-type", "")
    kind, options = parse_options_header(given)
    if kind != b"multipart/form-data":
        message = f"must be multipart/form-data, not '{given}'" if given else "is missing"
        raise OrchardError("invalid_request", f"the content type {message}: send a form with the file")
    if (encoding := http.headers.get("content-encoding", "identity")) != "identity":
        raise OrchardError("invalid_request", f"the content-encoding '{encoding}' is not supported; send it plain")
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 70:  # RFC 2046, 5.1.1
        raise _broken("its content type names no boundary of 1 to 70 characters")
    return boundary


def _broken(why: str) -> OrchardError:
    return OrchardError("invalid_request", f"the form can't be read: {why}")

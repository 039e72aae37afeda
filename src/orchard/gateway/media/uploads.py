"""Read forms with files (multipart/form-data). Files are written to disk as they arrive."""

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaKind, MediaPart
from orchard.dialects.common.json_body import invalid_field
from orchard.gateway.http.body import drain_body
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.media.errors import check_media_type, file_empty, file_too_large
from orchard.gateway.media.upload_folder import UploadFolder, disk_error

LEAST_RATE = 32 * 1024
"""Bytes per second that a client must send on average after the time limit of other bodies."""
MOST_FIELD_BYTES = 2**20
_MOST_PARTS = 128
_WRITTEN_AT_ONCE = 2**20
_UPLOADS_AT_ONCE = 4  # uploads of the largest size that fit on the disk together


class Form(Struct):
    """A form: the values of its fields and its files, by name. `close` deletes the files."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[MediaPart]] = field(default_factory=dict)
    on_close: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Delete the files."""
        for file in itertools.chain.from_iterable(self.files.values()):
            Path(file.path).unlink(missing_ok=True)
        self.on_close()


class FileFields(Struct, frozen=True):
    """The fields of a form that are files of one kind: the most files of each field, and the most bytes of each file.

    `most_bytes` None: the limit of media of this kind. `field_bytes`: the most bytes of all other fields.
    """

    kind: MediaKind
    most: Mapping[str, int]
    most_bytes: int | None = None
    field_bytes: int = MOST_FIELD_BYTES

    @property
    def largest(self) -> int:
        """The most bytes that a file may have."""
        return self.most_bytes or MAX_BYTES[self.kind]

    @property
    def field_names(self) -> str:
        """The names of the fields, for a message."""
        return ", ".join(f"`{name}`" for name in self.most)


class UploadReader:
    """Reads the forms of one server's requests."""

    def __init__(self, settings: Settings, folder: UploadFolder, arriving: Budget) -> None:
        """`arriving`: the budget for the parts of forms that are in memory, until the form is complete."""
        self._arriving = arriving
        self._timeout = settings.body_timeout
        self._folder = folder
        self._budget = Budget(_UPLOADS_AT_ONCE * settings.max_upload_bytes, "uploads")

    async def read(self, http: Request, files: FileFields) -> Form:
        """Return a form with these fields of files. The caller closes it.

        Raise OrchardError: payload_too_large, timeout, overloaded if uploads take too much of the disk already,
        unavailable if the disk is full, cancelled if the client leaves, invalid_request if it is not such a form.
        """
        parts = _Parts(_boundary(http), files, self._folder, Share(self._budget), Share(self._arriving))
        chunks = http.stream()
        try:
            most = files.largest * sum(files.most.values()) + files.field_bytes + _WRITTEN_AT_ONCE
            if int(http.headers.get("content-length", 0)) > most:
                raise file_too_large(MediaPart(files.kind, "", next(iter(files.most))), files.most_bytes)
            await self._receive(chunks, parts)
        except BaseException as error:
            parts.form.close()
            # A client with an Expect header has not begun to send.
            if isinstance(error, OrchardError) and "expect" not in http.headers:
                with contextlib.suppress(ClientDisconnect):
                    await drain_body(chunks)
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
            message = f"the upload took more than {self._timeout:g} seconds, at less than"
            raise OrchardError("timeout", f"{message} {LEAST_RATE // 1024} KiB a second") from None
        except OSError as error:
            raise disk_error(error) from None


class _OpenFile:
    """A file that is being written; `pending` are the bytes that are not on disk yet."""

    def __init__(self, number: int) -> None:
        self.pending = bytearray()
        self._number = number
        self._closed = False
        self._writing = threading.Lock()

    def write(self) -> None:
        """Write what is pending. Raise OSError."""
        pending, self.pending = self.pending, bytearray()
        with self._writing:  # the caller may be cancelled, and the file closed
            while pending and not self._closed:
                del pending[: os.write(self._number, pending)]

    def close(self) -> None:
        """Close the file."""
        with self._writing:
            self._closed = True
            os.close(self._number)


class _Parts:
    """The parts of a form as they arrive."""

    def __init__(
        self, boundary: bytes, files: FileFields, folder: UploadFolder, share: Share, in_memory: Share
    ) -> None:
        self.form = Form(on_close=lambda: share.take(0))
        self._files = files
        self._folder = folder
        self._share = share
        self._in_memory = in_memory
        self._writers: list[_OpenFile] = []
        self._file: MediaPart | None = None
        self._file_bytes = self._all_bytes = self._field_bytes = self._count = 0
        self._complete = False
        self._begin_part()
        names = ("part_begin", "part_data", "part_end", "header_field", "header_value", "header_end")
        calls = {f"on_{one}": getattr(self, f"_{one}") for one in names}
        calls |= {"on_headers_finished": self._headers_finished, "on_end": self._end}
        self._parser = MultipartParser(boundary, calls)  # type: ignore[arg-type]

    @property
    def is_full(self) -> bool:
        """Whether enough bytes are in memory to write them."""
        return self._pending >= _WRITTEN_AT_ONCE

    @property
    def _pending(self) -> int:
        return sum(len(writer.pending) for writer in self._writers)

    def feed(self, chunk: bytes) -> None:
        """Parse the next piece of the body. Raise OrchardError."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise _form_error(str(error)) from None
        self._in_memory.take(self._pending + self._field_bytes)

    async def write(self) -> None:
        """Write what is in memory. Raise OSError."""
        for writer in self._writers:
            if writer.pending:
                await asyncio.to_thread(writer.write)

    def check_complete(self) -> None:
        """Raise OrchardError if the form is not complete."""
        if not self._complete:
            raise _form_error("it ends too early")

    def end(self) -> None:
        """Close the files."""
        self._in_memory.take(0)
        for writer in self._writers:
            writer.close()

    def _begin_part(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value = b"", b""
        self._field: str | None = None
        self._file = None
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
            raise _form_error("a part has no name")
        self._field = options[b"name"].decode(errors="replace")
        if b"filename" not in options:
            return
        there = self.form.files.setdefault(self._field, [])
        most = self._files.most.get(self._field, 0)
        if len(there) >= most:
            plural = "file" if most == 1 else "files"
            why = (
                f"may have {most} {plural}."
                if most
                else f"is not a field for files: send them in {self._files.field_names}."
            )
            raise invalid_field(self._field, why)
        media_type = self._headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        file = MediaPart(self._files.kind, "", self._field, media_type=media_type)
        check_media_type(file, media_type)
        number, path = self._folder.new_file()
        self._writers.append(_OpenFile(number))
        self._file, self._file_bytes = replace(file, path=str(path)), 0
        there.append(self._file)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        size = end - start
        if self._file:
            self._file_bytes += size
            self._all_bytes += size
            if self._file_bytes > self._files.largest:
                raise file_too_large(self._file, self._files.most_bytes)
            self._share.take(self._all_bytes)
            self._writers[-1].pending += memoryview(data)[start:end]
            return
        self._field_bytes += size
        if self._field_bytes > (most := self._files.field_bytes):
            message = f"the fields besides {self._files.field_names} have more than {most} bytes"
            raise OrchardError("payload_too_large", message, param=self._field)
        self._data += data[start:end]

    def _part_end(self) -> None:
        if self._file and not self._file_bytes:
            raise file_empty(self._file)
        if self._file or self._field is None:
            return
        try:
            value = self._data.decode()
        except UnicodeDecodeError:
            raise invalid_field(self._field, "is not UTF-8.") from None
        self.form.fields.setdefault(self._field, []).append(value)

    def _end(self) -> None:
        self._complete = True


def _boundary(http: Request) -> bytes:
    """Return the boundary of a form. Raise OrchardError (invalid_request) if the body is not a form."""
    given = http.headers.get("content-type", "")
    kind, options = parse_options_header(given)
    if kind != b"multipart/form-data":
        message = f"must be multipart/form-data, not '{given}'" if given else "is missing"
        raise OrchardError("invalid_request", f"the content type {message}: send a form with the file")
    if (encoding := http.headers.get("content-encoding", "identity")) != "identity":
        raise OrchardError("invalid_request", f"the content-encoding '{encoding}' is not supported; send it plain")
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= 70:  # RFC 2046, 5.1.1
        raise _form_error("its content type names no boundary of 1 to 70 characters")
    return boundary


def _form_error(why: str) -> OrchardError:
    return OrchardError("invalid_request", f"the form can't be read: {why}")

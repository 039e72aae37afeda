"""Fetching over HTTP: where connections go, what is followed, and what is refused."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from orchard import __version__
from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaKind, MediaPart
from orchard.gateway.http import pace
from orchard.gateway.media import fetch, transport
from orchard.gateway.media.fetch import Fetcher
from tests.support.web import Answer, found, moved, web

PUBLIC = "93.184.216.34"
OTHER = "93.184.216.35"
PRIVATE = "10.0.0.1"


class Names:
    """A name server: each lookup of a name gives its next answer, and the last one for ever."""

    def __init__(self, **names: list[list[str]]) -> None:
        self._names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, Any, Any, Any, tuple[Any, ...]]]:
        self.asked.append((host, port))
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        except OSError:
            answers = self._names.get(host)
            if answers is None:
                raise socket.gaierror(socket.EAI_NONAME, "unknown") from None
            found = answers.pop(0) if len(answers) > 1 else answers[0]
        else:
            found = [host]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


class Wire(httpx.AsyncBaseTransport):
    """What would go over the network: `answer` gives the answer to each request."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self.answer = answer
        self.requests: list[httpx.Request] = []

    def __call__(self, _: ssl.SSLContext) -> "Wire":
        return self

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.answer(request)

    @property
    def connected(self) -> list[str]:
        """The hosts of all connections."""
        return [request.url.host for request in self.requests]


def part(url: str, kind: MediaKind = "image") -> MediaPart:
    return MediaPart(kind, url, "p")


def picture(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "image/png"}, stream=httpx.ByteStream(b"ABC"))


def goes(to: str) -> Callable[[httpx.Request], httpx.Response]:
    """Redirect everything else to that place, and answer there."""
    return lambda request: (
        picture(request)
        if request.url.path == httpx.URL(to).path and request.headers["host"] == httpx.URL(to).netloc.decode()
        else httpx.Response(302, headers={"location": to})
    )


async def fetched(fetcher: Fetcher, url: str, kind: MediaKind = "image") -> MediaPart:
    return await fetcher.fetch(part(url, kind), lambda _: None)


async def refused(fetcher: Fetcher, url: str, kind: MediaKind = "image") -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        await fetched(fetcher, url, kind)
    assert caught.value.param == "p"
    return caught.value


async def test_what_arrived_is_joined_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying 200 MiB takes longer than other requests should wait."""
    threaded: list[object] = []

    async def to_thread(work: Callable[..., object], *given: object) -> object:
        threaded.append(work)
        return work(*given)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    assert (await fetched(Fetcher(False, Names(x_test=[[PUBLIC]]), Wire(picture)), "https://x.test/a.png")).data
    assert b"".join in threaded


class TestAddresses:
    async def test_the_connection_goes_to_the_address_that_was_checked(self) -> None:
        # A second lookup would give a private address.
        names, wire = Names(x_test=[[PUBLIC], [PRIVATE]]), Wire(picture)
        found = await fetched(Fetcher(False, names, wire), "https://x.test:8443/a.png?b=c#d")
        assert found == MediaPart("image", "", "p", data=b"ABC", media_type="image/png")
        assert names.asked == [("x.test", 8443)]
        (request,) = wire.requests
        assert str(request.url) == f"https://{PUBLIC}:8443/a.png?b=c"
        assert request.headers["host"] == "x.test:8443"
        assert request.extensions["sni_hostname"] == "x.test"

    @pytest.mark.parametrize(
        "address", [PRIVATE, "127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "64:ff9b::a00:1"]
    )
    async def test_no_connection_goes_to_another_network(self, address: str) -> None:
        wire = Wire(picture)
        fetcher = Fetcher(False, Names(x_test=[[address]], y_test=[[PUBLIC, address]]), wire)
        for url in ("http://x.test/", "http://y.test/"):
            error = await refused(fetcher, url)
            assert (error.kind, "on the public internet" in error.message) == ("invalid_request", True)
            assert address not in error.message
        assert wire.requests == []

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://10.1.2.3:80/",
            "https://[fe80::1]/",
        ],
    )
    async def test_nor_to_one_that_is_written_as_it_is(self, url: str) -> None:
        wire = Wire(picture)
        await refused(Fetcher(False, Names(), wire), url)
        assert wire.requests == []

    @pytest.mark.parametrize("url", ["http://2130706433/", "http://127.1/", "http://0x7f000001/", "http://localhost/"])
    async def test_the_systems_resolver_reads_all_ways_to_write_an_address(self, url: str) -> None:
        wire = Wire(picture)
        await refused(Fetcher(False, transport=wire), url)
        assert wire.requests == []

    async def test_every_redirect_is_checked(self) -> None:
        names = Names(x_test=[[PUBLIC]], y_test=[[PRIVATE]])
        for to in ("http://y.test/b", "http://10.0.0.1/b", "//y.test/b"):
            wire = Wire(goes(to))
            assert "on the public internet" in (await refused(Fetcher(False, names, wire), "http://x.test/a")).message
            assert wire.connected == [PUBLIC]

    async def test_a_name_that_changes_between_redirects(self) -> None:
        names, wire = Names(x_test=[[PUBLIC], [PRIVATE]]), Wire(goes("http://x.test/b"))
        await refused(Fetcher(False, names, wire), "http://x.test/a")
        assert wire.connected == [PUBLIC]

    async def test_other_networks_may_be_allowed(self) -> None:
        wire = Wire(picture)
        await fetched(Fetcher(True, Names(x_test=[[PRIVATE]]), wire), "http://x.test/")
        assert wire.connected == [PRIVATE]

    async def test_unknown_names_and_private_ones_look_alike(self) -> None:
        fetcher = Fetcher(False, Names(x_test=[[PRIVATE]]), Wire(picture))
        known, unknown = await refused(fetcher, "http://x.test/"), await refused(fetcher, "http://z.test/")
        assert known.message.replace("x.test", "z.test") == unknown.message

    @pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ConnectTimeout])
    async def test_the_next_address_is_tried(self, error: type[httpx.TransportError]) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.host == PUBLIC:
                raise error("unreachable")
            return picture(request)

        wire = Wire(answer)
        await fetched(Fetcher(False, Names(x_test=[[PUBLIC, OTHER]]), wire), "http://x.test/")
        assert wire.connected == [PUBLIC, OTHER]
        told = await refused(Fetcher(False, Names(x_test=[[PUBLIC]]), wire), "http://x.test/")
        assert "can't be fetched: its server" in told.message


def two_hosts() -> Names:
    return Names(x_test=[[PUBLIC]], y_test=[[OTHER]])


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_they_are_followed(self, status: int) -> None:
        wire = Wire(goes("https://y.test/b"))
        found = await fetched(Fetcher(False, two_hosts(), wire), "http://x.test/a")
        assert (found.data, wire.connected) == (b"ABC", [PUBLIC, OTHER])

    async def test_only_so_many(self) -> None:
        wire = Wire(lambda _: httpx.Response(302, headers={"location": "/again"}))
        error = await refused(Fetcher(False, two_hosts(), wire), "http://x.test/a")
        assert "more than 4 redirects" in error.message
        assert len(wire.requests) == 5

    @pytest.mark.parametrize(
        "to",
        [
            "file:///etc/passwd",
            "data:image/png;base64,QUJD",
            "ftp://y.test/",
            "gopher://y.test/",
            "http://[",
            "http://y.test:99999/",
            f"http://y.test:{10**20}/",
        ],
    )
    async def test_nowhere_else(self, to: str) -> None:
        wire = Wire(lambda _: httpx.Response(302, headers={"location": to}))
        await refused(Fetcher(False, two_hosts(), wire), "http://x.test/a")
        assert wire.connected == [PUBLIC]

    async def test_nothing_is_passed_on(self) -> None:
        def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/b":
                return picture(request)
            return httpx.Response(302, headers={"location": "/b", "set-cookie": "a=b; Path=/"})

        wire = Wire(answer)
        fetcher = Fetcher(False, two_hosts(), wire)
        await fetched(fetcher, "http://x.test/a")
        await fetched(fetcher, "http://x.test/a")
        allowed = {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert [set(request.headers) for request in wire.requests] == [allowed] * 4
        assert wire.requests[0].headers["accept-encoding"] == "identity"
        assert wire.requests[0].headers["user-agent"] == f"orchard/{__version__}"

    @pytest.mark.parametrize("url", ["http://ann:pw@x.test/a", "http://ann@x.test/a"])
    async def test_credentials_are_refused(self, url: str) -> None:
        wire = Wire(picture)
        assert "user name" in (await refused(Fetcher(False, two_hosts(), wire), url)).message
        assert wire.requests == []
        wire = Wire(lambda _: httpx.Response(302, headers={"location": url}))
        assert "user name" in (await refused(Fetcher(False, two_hosts(), wire), "http://x.test/a")).message


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///a",
        "http://[::1",
        "http://x.test:99999/",
        "http://x.test:-1/",
        f"http://127.0.0.1:{2**16}/",
        f"http://127.0.0.1:{10**20}/",
        "http://a..b/",
        f"http://{'x' * 70}.test/",
        "http:x",
        "http://\u2028/",
        "http://x\n.test/",
        "http://" + "x" * 70_000,
    ],
)
async def test_what_is_no_address_of_a_server(url: str) -> None:
    for allow_private in (False, True):
        assert (await refused(Fetcher(allow_private), url)).kind == "invalid_request"


async def from_web(answer: Answer, kind: MediaKind = "image") -> MediaPart:
    """Fetch over a real connection."""
    async with web({"/a": answer}) as site:
        return await fetched(Fetcher(True), site.url("/a"), kind)


async def refused_from_web(answer: Answer, kind: MediaKind = "image") -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        await from_web(answer, kind)
    assert caught.value.param == "p"
    return caught.value


class TestContents:
    async def test_a_picture(self) -> None:
        assert (await from_web(found(b"ABC"))).data == b"ABC"
        assert (await from_web(found(b"ABC", "IMAGE/PNG; a=b"))).media_type == "image/png"
        assert (await from_web(found(b"ABC", ""))).media_type == ""
        assert len((await from_web(found(b"ABC", "text/" + "x" * 999), "document")).media_type) == 255
        chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nAB\r\n1\r\nC\r\n0\r\n\r\n"
        assert (await from_web(chunked)).data == b"ABC"

    @pytest.mark.parametrize(
        ("media_type", "kind"),
        [
            ("image/jpeg", "image"),
            ("audio/mpeg", "audio"),
            ("video/mp4", "video"),
            ("application/pdf", "document"),
            ("text/html", "document"),
            ("application/octet-stream", "document"),
        ],
    )
    async def test_a_document_is_what_its_server_says(self, media_type: str, kind: str) -> None:
        assert (await from_web(found(b"ABC", media_type), "document")).kind == kind

    @pytest.mark.parametrize("media_type", ["text/html", "application/json", "audio/wav", "x"])
    async def test_a_wrong_type(self, media_type: str) -> None:
        assert repr(media_type) in (await refused_from_web(found(b"ABC", media_type))).message

    @pytest.mark.parametrize("status", ["404 Not Found", "500 No", "204 No Content", "206 Partial Content", "304 Same"])
    async def test_a_wrong_status(self, status: str) -> None:
        error = await refused_from_web(found(b"", status=status))
        assert (error.kind, f"status {status[:3]}" in error.message) == ("invalid_request", True)

    async def test_a_redirect_to_nowhere(self) -> None:
        assert "status 302" in (await refused_from_web(found(b"", status="302 Found"))).message

    async def test_compressed(self) -> None:
        assert "compressed" in (await refused_from_web(found(b"x", content_encoding="gzip"))).message

    async def test_an_empty_one(self) -> None:
        assert "is empty" in (await refused_from_web(found(b""))).message

    @pytest.mark.parametrize(
        "answer",
        [
            found(b"ABC", content_length="5"),
            found(b"ABC", content_length="x"),
            found(b"ABC", content_length="-1"),
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nABC",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000,
            b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\nABC",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nABC",
            b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nABC",
            b"HTTP/9.9 x\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n",
            b"\0" * 100,
            b"",
        ],
    )
    async def test_no_http(self, answer: bytes) -> None:
        assert (await refused_from_web(answer)).kind == "invalid_request"

    async def test_a_length_that_is_too_large_is_refused_before_it_comes(self) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {MAX_BYTES['image'] + 1}\r\n\r\n".encode()

        async def waits(writer: asyncio.StreamWriter) -> None:
            writer.write(head)
            await asyncio.Event().wait()

        assert (await refused_from_web(waits)).kind == "payload_too_large"

    @pytest.mark.parametrize("kind", ["image", "document"])
    async def test_without_a_length_it_is_read_up_to_the_limit(
        self, kind: MediaKind, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(MAX_BYTES, "image", 5)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n"
        assert (await from_web(head + b"12345", kind)).data == b"12345"
        assert (await refused_from_web(head + b"123456", kind)).kind == "payload_too_large"

    async def test_a_server_that_says_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fetch, "_SILENT_SECONDS", 0.01)

        async def silent(_: asyncio.StreamWriter) -> None:
            await asyncio.Event().wait()

        assert "in time" in (await refused_from_web(silent)).message

    async def test_a_server_that_sends_too_slowly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transport, "GRACE_SECONDS", 0.01)

        async def slow(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 99\r\n\r\nABC")
            await asyncio.Event().wait()

        assert "less than 4096 bytes a second" in (await refused_from_web(slow)).message

    @pytest.mark.parametrize("chunk", [b"1\r\nx\r\n", b"1;" + b"a" * 99 + b"\r\nx\r\n"])
    async def test_chunks_that_are_too_small(self, chunk: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n\r\n"
        answer = head + chunk * (1_000_000 // len(chunk)) + b"0\r\n\r\n"
        assert "chunks that are too small" in (await refused_from_web(answer)).message
        assert len((await from_web(head + chunk * 500 + b"0\r\n\r\n")).data) == 500

    async def test_small_segments_gather_while_nothing_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pace, "BURST", 4)
        monkeypatch.setattr(pace, "RATE", 2.0)
        told: list[int] = []

        async def fine(writer: asyncio.StreamWriter) -> None:
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in found(b"x" * 500):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)

        async with web({"/a": fine}) as site:
            got = await Fetcher(True).fetch(part(site.url("/a")), told.append)
        assert (len(got.data), sum(told)) == (500, 500)
        assert len(told) < 20

    @pytest.mark.parametrize("code", [100, 102, 103])
    async def test_interim_responses_are_passed_over_up_to_a_limit(self, code: int) -> None:
        interim = b"HTTP/1.1 %d Wait\r\na: b\r\n\r\n" % code
        assert (await from_web(interim * 3 + found(b"ABC"))).data == b"ABC"
        assert "doesn't speak HTTP" in (await refused_from_web(interim * 50_000)).message

    async def test_what_follows_the_response_is_not_part_of_it(self) -> None:
        assert (await from_web(found(b"ABC") + found(b"DEF"))).data == b"ABC"
        assert (await from_web(found(b"ABC", connection="close") + b"DEF")).data == b"ABC"
        assert (await from_web(found(b"ABC", connection="upgrade", upgrade="h2"))).data == b"ABC"

    async def test_nobody_listens(self) -> None:
        async with web({}) as site:
            url = site.url("/a")
        assert "can't be reached" in (await refused(Fetcher(True), url)).message

    async def test_each_piece_is_told(self) -> None:
        told: list[int] = []
        async with web({"/a": found(b"ABC")}) as site:
            await Fetcher(True).fetch(part(site.url("/a")), told.append)
        assert sum(told) == 3

    async def test_a_refusal_to_hold_more_ends_it(self) -> None:
        def full(_: int) -> None:
            raise OrchardError("overloaded", "too much")

        async with web({"/a": found(b"ABC")}) as site:
            with pytest.raises(OrchardError, match="too much"):
                await Fetcher(True).fetch(part(site.url("/a")), full)

    async def test_proxies_of_the_environment_are_left_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with web({}) as proxy, web({"/a": found(b"ABC")}) as site:
            for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, proxy.url(""))
            assert (await fetched(Fetcher(True), site.url("/a"))).data == b"ABC"
            assert proxy.requests == []

    async def test_the_host_is_the_name(self) -> None:
        async with web({"/a": moved("/b"), "/b": found(b"ABC")}) as site:
            fetcher = Fetcher(True, Names(x_test=[["127.0.0.1"]]))
            await fetched(fetcher, site.url("/a", "x.test"))
            assert [f"host: x.test:{site.port}" in request.lower() for request in site.requests] == [True, True]


class TestCertificates:
    """A server has a certificate for x.test, which the test trusts."""

    @pytest.fixture
    def tls(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x.test")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("x.test")]), critical=False)
            .sign(key, hashes.SHA256())
        )
        file = tmp_path / "x.pem"
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    @pytest.mark.parametrize("length", ["300000", ""])
    async def test_a_large_picture(self, tls: ssl.SSLContext, length: str) -> None:
        content = bytes(range(250)) * 1200
        async with web({"/a": found(content, content_length=length)}, tls) as site:
            fetcher = Fetcher(True, Names(x_test=[["127.0.0.1"]]))
            assert (await fetched(fetcher, f"https://x.test:{site.port}/a")).data == content

    async def test_the_name_is_checked_and_not_the_address(self, tls: ssl.SSLContext) -> None:
        names: list[str | None] = []
        tls.sni_callback = lambda _, name, __: names.append(name)
        async with web({"/a": found(b"ABC")}, tls) as site:
            fetcher = Fetcher(True, Names(x_test=[["127.0.0.1"]], y_test=[["127.0.0.1"]]))
            url = f"https://x.test:{site.port}/a"
            assert (await fetched(fetcher, url)).data == b"ABC"
            assert names == ["x.test"]
            assert f"host: x.test:{site.port}" in site.requests[0].lower()
            assert "no valid certificate" in (await refused(fetcher, url.replace("x.test", "y.test"))).message
            assert len(site.requests) == 1

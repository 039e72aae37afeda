"""A small server that plays the Hugging Face Hub, and counts what it is asked for."""

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = "model-00002-of-00002.safetensors"
SIZE = 24_000_000  # huggingface_hub tells of ten megabytes at a time, before it writes them
_INFO = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(/revision/(?P<revision>[^/]+))?")
_TREE = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)/tree/(?P<revision>[^/]+)")
_FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)")


class Hub:
    """Repositories by their ids, each a folder of files; all have one commit, on the branch main."""

    def __init__(self) -> None:
        self.repos: dict[str, Path] = {}
        self.refused: dict[str, tuple[int, str]] = {}
        """Repositories that nobody is given, with the status and the error code that the Hub has for it."""
        self.asked: list[str] = []
        """Method, path and range of each request for a file or about a repository."""
        self.cut: dict[str, int] = {}
        """Files whose first answer breaks off after so many bytes."""
        self.xet = False
        """Whether large files are in the store of Xet, which this server doesn't play."""
        self.goes_on = threading.Event()
        """While it is not set, no file of more than 1,000 bytes is sent whole."""
        self.goes_on.set()
        self.url = ""
        self.uses: dict[str, str] = {}
        """What the Hub says that repositories are for, if it says that."""
        self.authorizations: set[str | None] = set()

    @property
    def env(self) -> dict[str, str]:
        """What points huggingface_hub here."""
        return {"HF_ENDPOINT": self.url, "HF_HUB_OFFLINE": "0"}

    def sent(self, name: str = "") -> list[str]:
        """Return the requests for files whose addresses contain `name`, those for their sizes alone not counted."""
        return [asked for asked in self.asked if asked.startswith("GET") and "/resolve/" in asked and name in asked]

    def files(self, repo: str) -> dict[str, Path]:
        folder = self.repos[repo]
        return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if path == "/api/models":
            self._search(parse_qs(urlsplit(self.path).query))
            return
        self.hub.asked.append(" ".join(filter(None, (self.command, path, self.headers["Range"]))))
        for pattern, answer in ((_TREE, self._tree), (_INFO, self._info), (_FILE, self._file)):
            if match := pattern.fullmatch(path):
                self.hub.authorizations.add(self.headers["Authorization"])
                repo, revision = match["repo"], match["revision"] or "main"
                if repo in self.hub.refused:
                    self._refuse(*self.hub.refused[repo])
                elif repo not in self.hub.repos:
                    self._refuse(404, "RepoNotFound")
                elif revision not in ("main", COMMIT):
                    self._refuse(404, "RevisionNotFound")
                else:
                    answer(**{name: match[name] for name in ("repo", "name") if name in pattern.groupindex})
                return
        self._refuse(404, "EntryNotFound")

    def _search(self, query: dict[str, list[str]]) -> None:
        """Answer with the repositories whose ids have all words; all of them are in MLX's format."""
        assert (query["filter"], query["sort"]) == (["mlx"], ["downloads"])
        words = query["search"][0].casefold().split()
        found = [repo for repo in self.hub.repos if all(word in repo.casefold() for word in words)]
        self._json([{"id": repo, "tags": ["mlx"], "pipeline_tag": self.hub.uses.get(repo)} for repo in found])

    def _refuse(self, status: int, code: str) -> None:
        self._send(b"{}", status=status, headers={"X-Error-Code": code, "X-Error-Message": code})

    def _info(self, repo: str) -> None:
        siblings = [
            {"rfilename": name, "size": path.stat().st_size, "blobId": _etag(path), **_lfs(path, "sha256")}
            for name, path in self.hub.files(repo).items()
        ]
        self._json({"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings, "tags": [], "downloads": 0})

    def _tree(self, repo: str) -> None:
        self._json(
            [
                {"type": "file", "path": name, "size": path.stat().st_size, "oid": _etag(path), **_lfs(path, "oid")}
                | ({"xetHash": _etag(path)} if self.hub.xet and _is_large(path) else {})
                for name, path in self.hub.files(repo).items()
            ]
        )

    def _file(self, repo: str, name: str) -> None:
        path = self.hub.files(repo).get(name)
        if path is None:
            self._refuse(404, "EntryNotFound")
            return
        content, status = path.read_bytes(), 200
        headers = {"ETag": f'"{_etag(path)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if asked := re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or ""):
            headers["Content-Range"] = f"bytes {asked[1]}-{len(content) - 1}/{len(content)}"
            content, status = content[int(asked[1]) :], 206
        self._send(content, status=status, headers=headers, cut=self.command == "GET" and self.hub.cut.pop(name, None))

    def _json(self, value: object) -> None:
        self._send(json.dumps(value).encode(), headers={"Content-Type": "application/json"})

    def _send(
        self, content: bytes, *, status: int = 200, headers: dict[str, str], cut: int | bool | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        with contextlib.suppress(OSError):
            if cut:
                self.wfile.write(content[:cut])
                self.close_connection = True
                return
            if len(content) > 1000 and "ETag" in headers:  # a file
                self.wfile.write(content[: len(content) // 2])
                content = content[len(content) // 2 :]
                self.wfile.flush()
                self.hub.goes_on.wait(30)
            self.wfile.write(content)


def _is_large(path: Path) -> bool:
    return path.stat().st_size > 1_000_000


def _lfs(path: Path, name: str) -> dict[str, object]:
    """What the Hub says of large files only; `name` is what it calls their SHA-256."""
    return {"lfs": {name: _etag(path), "size": path.stat().st_size, "pointerSize": 134}} if _is_large(path) else {}


def _etag(path: Path) -> str:
    content = path.read_bytes()
    return (hashlib.sha256(content) if _is_large(path) else hashlib.sha1(content, usedforsecurity=False)).hexdigest()


@contextlib.contextmanager
def run_hub() -> Iterator[Hub]:
    """Serve on a free port."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        hub.goes_on.set()
        server.shutdown()
        thread.join()
        server.server_close()

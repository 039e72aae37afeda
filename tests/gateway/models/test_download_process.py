"""What a downloading process does, in the tests' own process, with a server that plays the Hub."""

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub.utils import WeakFileLock

from orchard.core.errors import OrchardError
from orchard.gateway.models.download_process import download_snapshot
from orchard.gateway.models.model_files import FolderReader
from tests.support.hub import COMMIT, LARGE, SIZE, Hub
from tests.support.model_folders import some_weights


@pytest.fixture(autouse=True)
def constants(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process, which has read its environment, use the hub and its cache."""
    from huggingface_hub import constants

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("{")[2]
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{{{template}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", os.environ["HF_HUB_CACHE"])


def tell(told: list[int]) -> Callable[[int, int], None]:
    """Keep the percentages that `download_snapshot` tells."""
    return lambda done, total: told.append(100 * done // total)


def quietly(repo: str, revision: str | None = None) -> str:
    return download_snapshot(repo, revision, lambda done, total: None)


def test_what_a_model_needs_is_fetched_once(hub: Hub) -> None:
    told: list[int] = []
    folder = download_snapshot("org/tiny", None, tell(told))
    names = ["config.json", "model-00001-of-00002.safetensors", LARGE, "model.safetensors.index.json"]
    assert sorted(path.name for path in Path(folder).iterdir()) == [*names, "tokenizer_config.json"]
    assert FolderReader().read(folder).size_bytes == SIZE + 100
    assert told == sorted(told)
    assert told[0] < 50 < told[-2] <= told[-1] == 100
    fetched = len(hub.sent())
    assert quietly("org/tiny", COMMIT) == folder
    assert len(hub.sent()) == fetched


def test_large_files_come_over_xet_and_its_progress_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Xet has received counts, though it writes late; what it has from elsewhere is only written."""
    from huggingface_hub import file_download
    from huggingface_hub.utils._xet_progress_reporting import XetDownloadProgressReporter

    hub.xet = True
    fetched: list[str] = []
    told: list[int] = []

    def xet_get(*, incomplete_path: Path, tqdm_class: type, displayed_filename: str, **_: Any) -> None:
        fetched.append(displayed_filename)
        reporter = XetDownloadProgressReporter(reconstruction_desc="", total=SIZE, log_level=20, tqdm_class=tqdm_class)
        for received, written in ((SIZE // 2, 0), (SIZE // 2, SIZE)):
            reporter.update_progress(
                SimpleNamespace(
                    total_bytes=SIZE,
                    total_bytes_completed=written,
                    total_bytes_completion_rate=None,
                    total_transfer_bytes_completed=received,
                    total_transfer_bytes_completion_rate=None,
                )
            )
        incomplete_path.write_bytes(some_weights(SIZE))

    monkeypatch.setattr(file_download, "xet_get", xet_get)
    folder = download_snapshot("org/tiny", None, tell(told))
    assert fetched == [LARGE]
    assert (Path(folder) / LARGE).read_bytes() == some_weights(SIZE)
    assert hub.sent(LARGE) == []
    assert [part for part in sorted(set(told)) if 1 < part < 99] == [49]  # the small files come on top
    assert told[-1] == 100


def test_a_connection_that_breaks_is_taken_up_where_it_broke(hub: Hub) -> None:
    hub.cut[LARGE] = 11_000_000
    folder = quietly("org/tiny")
    assert (Path(folder) / LARGE).stat().st_size == SIZE
    first, second = hub.sent(LARGE)
    assert "bytes=" not in first
    assert 10_000_000 <= int(second.split("bytes=")[1].removesuffix("-")) <= 11_000_000


def test_a_file_that_another_process_fetches_is_waited_for(hub: Hub, blobs: Path) -> None:
    digest = hashlib.sha256(some_weights(SIZE)).hexdigest()
    lock = blobs.parents[1] / ".locks" / blobs.parent.name / f"{digest}.lock"
    for folder in (blobs, lock.parent):
        folder.mkdir(parents=True)
    told: list[int] = []
    with ThreadPoolExecutor() as thread:
        with WeakFileLock(lock):
            pulled = thread.submit(download_snapshot, "org/tiny", None, tell(told))
            assert not wait([pulled], timeout=0.5).done
            (blobs / digest).write_bytes(some_weights(SIZE))
        assert Path(pulled.result(), LARGE).stat().st_size == SIZE
    assert hub.sent(LARGE) == []
    assert told[-1] == 100


def test_the_second_copy_of_a_pipelines_weights_is_left_out(hub: Hub, tmp_path: Path) -> None:
    repo = hub.repos["org/painter"] = tmp_path / "painter"
    names = ["model_index.json", "transformer/flux[1].safetensors", "vae/model.safetensors"]
    for name in (*names, "flux[1].safetensors"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(name.encode())
    folder = Path(quietly("org/painter"))
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == names


def test_what_a_model_of_transcription_reads_beside_its_weights_is_fetched(hub: Hub) -> None:
    for name in ("am.mvn", "tokens.txt", "spectok.bpe.model", "demo.wav", "code.py"):
        (hub.repos["org/tiny"] / name).write_bytes(name.encode())
    found = {path.name for path in Path(quietly("org/tiny")).iterdir()}
    assert found >= {"am.mvn", "tokens.txt", "spectok.bpe.model"}
    assert not found & {"demo.wav", "code.py"}


def test_two_names_of_one_content_are_one_file(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    (hub.repos["org/tiny"] / "copy.safetensors").write_bytes(some_weights(SIZE))
    usage = shutil.disk_usage("/")._replace(free=SIZE + 10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    folder = Path(quietly("org/tiny"))
    assert {(folder / name).stat().st_size for name in (LARGE, "copy.safetensors")} == {SIZE}
    assert len(hub.sent(LARGE) + hub.sent("copy")) == 1


def test_files_that_are_here_are_not_fetched_again(hub: Hub, blobs: Path) -> None:
    quietly("org/tiny")
    link = blobs.parent / "snapshots" / COMMIT / LARGE
    link.resolve().unlink()
    link.unlink()
    left, young = blobs / f"{'a' * 40}.01234567.incomplete", blobs / f"{'b' * 40}.01234567.incomplete"
    for path in (left, young):
        path.touch()
    os.utime(left, (0, 0))
    hub.asked.clear()
    told: list[int] = []
    download_snapshot("org/tiny", None, tell(told))
    assert [request.rpartition("/")[2] for request in hub.sent()] == [LARGE]
    assert told[0] < 50
    # Nobody can use what a process left that was killed; that of one that runs stays.
    assert (left.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(
    ("repo", "revision", "kind", "words"),
    [
        ("org/none", None, "model_not_found", "there is no model 'org/none'"),
        ("org/gated", None, "model_not_found", "is gated: accept its terms"),
        ("org/tiny", "v9", "model_not_found", "no revision 'v9'"),
        ("../tiny", None, "model_not_found", "not the id of a model"),
        ("org/broken", None, "unavailable", "refused to give 'org/broken': .*418"),
    ],
)
def test_it_says_what_went_wrong(hub: Hub, repo: str, revision: str | None, kind: str, words: str) -> None:
    hub.refused = {"org/gated": (403, "GatedRepo"), "org/broken": (418, "Teapot")}
    with pytest.raises(OrchardError, match=words) as raised:
        quietly(repo, revision)
    assert (raised.value.kind, raised.value.param) == (kind, "model")


def test_a_disk_that_is_too_full_is_said_before_it_is_filled(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OrchardError, match=r"the disk is too full for 'org/tiny': .*0.0 GB are needed") as raised:
        quietly("org/tiny")
    assert raised.value.kind == "model_failed"
    assert hub.sent() == []


def test_no_network_and_none_wanted(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OrchardError, match="HF_HUB_OFFLINE is set"):
        quietly("org/tiny")
    assert hub.asked == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OrchardError, match=r"could not be fetched from http://127\.0\.0\.1:9: .*refused") as raised:
        quietly("org/tiny")
    assert raised.value.kind == "unavailable"

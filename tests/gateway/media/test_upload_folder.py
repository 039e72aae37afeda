import os
import subprocess
import sys
from pathlib import Path

from orchard.gateway.media.upload_folder import UploadFolder

MAKE = """
import sys
from pathlib import Path
from orchard.gateway.media.upload_folder import UploadFolder
folder = UploadFolder(Path(sys.argv[1]))
number, path = folder.new_file()
print(path, flush=True)
sys.stdin.read()
"""


def test_a_start_deletes_the_files_of_dead_processes_only(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        path = Path(other.stdout.readline().strip())
        (tmp_path / "died-before-its-lock").mkdir()
        UploadFolder(tmp_path).clear_dead()
        assert path.is_file()
        assert not (tmp_path / "died-before-its-lock").exists()
        other.kill()
        other.wait()
        assert path.is_file()
        UploadFolder(tmp_path).clear_dead()
        assert os.listdir(tmp_path) == ["lock"]


def test_a_folder_is_made_when_it_is_needed_and_deleted_at_the_end(tmp_path: Path) -> None:
    folder = UploadFolder(tmp_path / "cache" / "uploads")
    folder.clear_dead()
    assert os.listdir(tmp_path) == []
    number, path = folder.new_file()
    os.close(number)
    assert path.stat().st_size == 0
    folder.close()
    folder.close()
    assert not path.parent.exists()


def test_it_lies_in_orchards_cache() -> None:
    assert UploadFolder()._root == Path(os.environ["ORCHARD_CACHE_DIR"]) / "uploads"

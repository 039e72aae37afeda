"""An import takes no more memory than twice its largest tensor, beside what the libraries take for a tiny model."""

import subprocess
import sys
from pathlib import Path

from gguf import GGMLQuantizationType as Kind

from tests.gguf_import.tiny_models import CASES, Case, write_model

ROWS, WIDTH = 32_768, 1024
WIDE = {"vocab_size": ROWS, "hidden_size": WIDTH, "head_dim": 64, "num_hidden_layers": 1, "tie_word_embeddings": True}
LARGEST = ROWS * WIDTH * 18 // 32  # bytes in Q4_0
# A process's highest memory never falls, so the tiny model comes first. Its own is far below that of the imports.
PROGRAM = """
import resource, sys
from orchard.gguf_import.process import run_job
from orchard.gguf_job import ImportJob

peaks = []
for file, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    report = run_job(ImportJob(files=[file], folder=folder), lambda report: None)
    assert report.is_whole, report
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(peaks[1] - peaks[0])
"""


def test_the_memory_of_an_import(tmp_path: Path) -> None:
    names = []
    for name, case in {"tiny": CASES["llama"], "wide": Case("llama", CASES["llama"].config | WIDE)}.items():
        names += [str(write_model(tmp_path / f"{name}.gguf", case, (Kind.Q4_0,)).file), str(tmp_path / name)]
        (tmp_path / name).mkdir()
    ran = subprocess.run([sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, check=True)
    more = int(ran.stdout) * (1 if sys.platform == "darwin" else 1024)
    assert more < 2 * LARGEST

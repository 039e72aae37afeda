"""The files of OpenAI's package that the scripts use."""

import hashlib
import tarfile
from pathlib import Path

VOCABULARIES = {"gpt2": "whisper/assets/gpt2.tiktoken", "multilingual": "whisper/assets/multilingual.tiktoken"}
HASHES = {
    "LICENSE": "b5d65a59060e68c4ff940e1eddfa6f94b2d68fdf58ed7f4dd57721c997e35e9d",
    "whisper/assets/gpt2.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "whisper/assets/multilingual.tiktoken": "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126",
    "whisper/tokenizer.py": "3b48e361a7e95b4ec0356ca6d72bba635778aa10269153136ee7bc34cae30b85",
}
"""SHA-256, as in version 20250625."""


def read(sdist: Path, name: str) -> bytes:
    """Return a file by its path in the package. Raise ValueError if it is missing or not the expected one."""
    with tarfile.open(sdist) as archive:
        found = next((one for one in archive if one.name.partition("/")[2] == name and one.isfile()), None)
        content = archive.extractfile(found) if found else None
        if content is None:
            raise ValueError(f"{sdist.name} has no {name}")
        text = content.read()
    if hashlib.sha256(text).hexdigest() != HASHES[name]:
        raise ValueError(f"{name} in {sdist.name} is another one")
    return text

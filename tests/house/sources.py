"""What the checks of the house look at: the files of the repository, read once."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Source:
    """One text file: its path from the root of the repository, with slashes, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        """The dotted name of a module under src: `toolstash.wire` for `src/toolstash/wire/__init__.py`."""
        parts = list(Path(self.path).with_suffix("").parts[1:])
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def repository_paths() -> tuple[str, ...]:
    """Every file that git tracks, or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return tuple(sorted(path for path in listed if path and (ROOT / path).is_file()))


@cache
def repository_texts() -> tuple[Source, ...]:
    """Every file of the repository that is text."""
    texts: list[Source] = []
    for path in repository_paths():
        data = (ROOT / path).read_bytes()
        if b"\0" not in data:
            texts.append(Source(path, data.decode()))
    return tuple(texts)


def python_under(folder: str) -> list[Source]:
    """The Python files of a folder, such as "src/toolstash"."""
    return [text for text in repository_texts() if text.path.startswith(f"{folder}/") and text.path.endswith(".py")]

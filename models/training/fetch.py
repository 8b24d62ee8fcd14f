"""The data of manifest.tsv, from public git repositories into DIR/raw.

Each file is taken at its pinned commit and compared with its sha256. `repositories` may name a folder that has the
repositories already (owner+name, or owner+name/repo), then nothing is cloned.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
MANIFEST = HERE / "manifest.tsv"


@dataclasses.dataclass(frozen=True)
class Source:
    """One file: where it is published, under which licence, and what it must be."""

    name: str
    repository: str
    commit: str
    path: str
    licence: str
    sha256: str

    def stored(self, directory: pathlib.Path) -> pathlib.Path:
        return directory / "raw" / self.name / self.path.replace("/", "_")


def sources() -> list[Source]:
    lines = [line for line in MANIFEST.read_text().splitlines() if not line.startswith("#")]
    return [Source(*line.split("\t")) for line in lines[1:]]


def repository_folder(source: Source, repositories: pathlib.Path | None, directory: pathlib.Path) -> pathlib.Path:
    """A clone of the source's repository: one that is there, or a new one under `directory`."""
    name = source.repository.replace("/", "+")
    if repositories:
        for folder in (repositories / name / "repo", repositories / name):
            if folder.exists():
                return folder
    folder = directory / "repositories" / name
    if not folder.exists():
        url = f"https://github.com/{source.repository}"
        subprocess.run(["git", "clone", "--quiet", "--bare", url, str(folder)], check=True)
    return folder


def fetch(directory: pathlib.Path, repositories: pathlib.Path | None = None) -> None:
    """Writes the files that DIR/raw lacks. A file whose sha256 is another stops it."""
    for source in sources():
        target = source.stored(directory)
        if not target.exists():
            folder = repository_folder(source, repositories, directory)
            command = ["git", "-C", str(folder), "show", f"{source.commit}:{source.path}"]
            content = subprocess.run(command, check=True, capture_output=True).stdout
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        if hashlib.sha256(target.read_bytes()).hexdigest() != source.sha256:
            raise SystemExit(f"{target}: its sha256 is not the one in {MANIFEST.name}")

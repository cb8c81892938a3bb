"""A release: `make release VERSION=1.2.3` runs `prepare`, then `make check`, then `build`.

prepare   version.py gets the version, and what stands under "Unreleased" in CHANGELOG.md gets it too, with today's date
build     dist/VERSION/: the sdist, the wheel that is built from it, the JSON Schemas, and the notes

Both refuse a tree with other changes, since what is released has to be what is committed.  Both may be repeated.
Nothing is committed, tagged or uploaded: `build` ends with the commands for that.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = Path("supervisor", "hooklatch", "version.py")
FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)")
LITERAL = re.compile(r'^VERSION = "([^"]+)"$', re.MULTILINE)
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## Unreleased"
MOST_LINES = 80  # of what a release changes: a reader takes it in before he upgrades


class ReleaseError(Exception):
    """The release cannot be made; the text says why, and what to do."""


def check_tree(root: Path) -> None:
    """Refuse a tree that has other changes than those of `prepare`."""
    done = subprocess.run(
        ["git", "status", "--porcelain", "--no-renames"], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"a release is made in a checkout of git: {done.stderr.strip()}")
    ours = {str(VERSION_FILE), CHANGELOG}
    if others := [line[3:] for line in done.stdout.splitlines() if line[3:] not in ours]:
        raise ReleaseError(f"{', '.join(others[:5])}: not committed; commit or remove what is not part of the release")


def prepare(root: Path, version: str, today: str) -> None:
    """Write the version and its section of the changelog, unless both are there."""
    path = root / VERSION_FILE
    text = path.read_text(encoding="utf-8")
    current = read_version(text)
    changelog = root / CHANGELOG
    history = changelog.read_text(encoding="utf-8")
    if has_section(history, version):
        if current != version:
            raise ReleaseError(
                f"CHANGELOG.md has a section {version}, and {path} says {current!r}; take another version"
            )
        return
    if number_of(version) < number_of(current):
        raise ReleaseError(f"{version} is older than {current}, which {path} says; take a later version")
    changelog.write_text(release_section(history, version, today), encoding="utf-8")
    path.write_text(LITERAL.sub(f'VERSION = "{version}"', text), encoding="utf-8")


def number_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version."""
    found = FORM.fullmatch(version)
    if found is None:
        raise ReleaseError(f"{version!r} is not a version such as 1.2.3")
    return tuple(map(int, found.groups()))


def read_version(text: str) -> str:
    """Return the literal of version.py."""
    found = LITERAL.search(text)
    if found is None:
        raise ReleaseError(f'{VERSION_FILE} has no line VERSION = "…"')
    return found[1]


def has_section(history: str, version: str) -> bool:
    """Return whether the changelog has a section of this version."""
    return re.search(rf"^## {re.escape(version)} \(", history, re.MULTILINE) is not None


def section_of(history: str, title: str) -> str:
    """Return what stands below a title of the changelog that begins so."""
    found = re.search(rf"^{re.escape(title)}\b[^\n]*\n(.*?)(?=^## |\Z)", history, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ReleaseError(f"CHANGELOG.md has no section {title!r}")
    return found[1].strip()


def release_section(history: str, version: str, today: str) -> str:
    """Return the changelog with a section of the version in place of what is unreleased."""
    changes = section_of(history, UNRELEASED)
    if not changes:
        raise ReleaseError(f"CHANGELOG.md says nothing under {UNRELEASED!r}; write what users notice")
    if len(changes.splitlines()) > MOST_LINES:
        raise ReleaseError(f"CHANGELOG.md has more than {MOST_LINES} lines under {UNRELEASED!r}; write for users")
    return history.replace(UNRELEASED, f"{UNRELEASED}\n\n## {version} ({today})", 1)


def build(root: Path, version: str, folder: Path) -> list[Path]:
    """Make what is published, in an empty folder; return the files.

    The wheel is built from the unpacked sdist, so the sdist holds everything that a build needs.
    """
    if read_version((root / VERSION_FILE).read_text(encoding="utf-8")) != version:
        raise ReleaseError(f"{VERSION_FILE} does not say {version}; run `prepare` first")
    notes = section_of((root / CHANGELOG).read_text(encoding="utf-8"), f"## {version}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], root)
    (sdist,) = folder.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        (source,) = Path(place).iterdir()
        run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], source)
        schemas = Path(place, f"hooklatch-{version}-schemas")
        run([sys.executable, "-m", "hooklatch", "schema", "--all", str(schemas)], root)
        with tarfile.open(folder / f"{schemas.name}.tar.gz", "w:gz") as archive:
            archive.add(schemas, schemas.name)
    (folder / "notes.md").write_text(notes + "\n", encoding="utf-8")
    return sorted(folder.iterdir())


def run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}".rstrip())


def main(arguments: Sequence[str]) -> int:
    """Run one step; return 1 if it cannot be done."""
    if len(arguments) != 2:
        print("usage: release.py prepare|build VERSION", file=sys.stderr)
        return 64
    step, version = arguments
    try:
        number_of(version)
        check_tree(ROOT)
        if step == "prepare":
            prepare(ROOT, version, datetime.now(UTC).date().isoformat())
        elif step == "build":
            files = build(ROOT, version, ROOT / "dist" / version)
            names = " ".join(os.path.relpath(path) for path in files)
            packages = " ".join(
                os.path.relpath(path) for path in files if path.name.endswith((".whl", f"-{version}.tar.gz"))
            )
            print(f"made {names}")
            print(f"read dist/{version}/notes.md, then:")
            print(f"  git commit -am 'release {version}' && git tag -a v{version} -F dist/{version}/notes.md")
            print(f"  twine upload {packages}")
        else:
            raise ReleaseError(f"{step!r} is not a step; the steps are 'prepare' and 'build'")
    except (ReleaseError, OSError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

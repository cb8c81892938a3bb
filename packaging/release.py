"""A release: `make release VERSION=1.2.3` runs `prepare`, then `make check`, then `build`.

wheels    dist/: a wheel with the forwarder as a program for each kind of machine, and one without
prepare   version.py gets the version, and what stands under "Unreleased" in CHANGELOG.md gets it too, with today's date
build     dist/VERSION/: the sdist, the wheels that are built from it, a Homebrew formula, the JSON Schemas, the notes,
          and on Debian a package for its Python

The last two refuse a tree with other changes, since what is released has to be what is committed.  All may be repeated.
What builds is in an environment of its own (build/packager), so `wheels` needs none of the developers' tools.
Nothing is committed, tagged or uploaded: `build` ends with the commands for that.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION_FILE = Path("supervisor", "hooklatch", "version.py")
FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)")
LITERAL = re.compile(r'^VERSION = "([^"]+)"$', re.MULTILINE)
CHANGELOG = "CHANGELOG.md"
UNRELEASED = "## Unreleased"
PACKAGER = Path("build", "packager")
PACKAGES = ("hatchling>=1.27,<2", "ziglang==0.17.1")  # the second is a C compiler for every machine, 100 MB to load
MACHINES = ("x86_64", "aarch64", "x86_64-macos", "aarch64-macos", "")  # "" is any, without the program
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


def make_packager(root: Path) -> str:
    """Return an interpreter that has PACKAGES; make its environment unless it is there."""
    folder = root / PACKAGER
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.is_file() or ready.read_text() != "\n".join(PACKAGES):
        run([sys.executable, "-m", "venv", "--clear", str(folder)], root)
        run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], root)
        ready.write_text("\n".join(PACKAGES))
    return str(python)


def build_packages(root: Path, folder: Path) -> list[Path]:
    """Make the sdist and the wheels; return them.

    The wheels are built from the unpacked sdist, so the sdist holds everything that a build needs.
    """
    hatchling = [make_packager(root), "-m", "hatchling", "build", "-d"]
    with tempfile.TemporaryDirectory() as place:
        run([*hatchling, place, "-t", "sdist"], root)
        (sdist,) = Path(place).glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        (source,) = Path(place).glob("*/")
        with ThreadPoolExecutor() as pool:  # a compiler is warmed up for each machine
            builds = [
                pool.submit(run, [*hatchling, f"{place}/wheels", "-t", "wheel"], source, HOOKLATCH_WHEEL=machine)
                for machine in MACHINES
            ]
        for one in builds:
            one.result()
        folder.mkdir(parents=True, exist_ok=True)
        made = [sdist, *sorted(Path(place, "wheels").glob("*.whl"))]
        if len(made) != 1 + len(MACHINES):
            raise ReleaseError(f"{', '.join(path.name for path in made)}: not all that should have been built")
        return [Path(shutil.move(path, folder / path.name)) for path in made]


def build(root: Path, version: str, folder: Path) -> list[Path]:
    """Make what is published, in an empty folder; return the files."""
    if read_version((root / VERSION_FILE).read_text(encoding="utf-8")) != version:
        raise ReleaseError(f"{VERSION_FILE} does not say {version}; run `prepare` first")
    notes = section_of((root / CHANGELOG).read_text(encoding="utf-8"), f"## {version}")
    shutil.rmtree(folder, ignore_errors=True)
    sdist, *wheels = build_packages(root, folder)
    build_system_packages(root, sdist, wheels)
    with tempfile.TemporaryDirectory() as place:
        schemas = Path(place, f"hooklatch-{version}-schemas")
        run([sys.executable, "-m", "hooklatch", "schema", "--all", str(schemas)], root)
        with tarfile.open(folder / f"{schemas.name}.tar.gz", "w:gz") as archive:
            archive.add(schemas, schemas.name)
    (folder / "notes.md").write_text(notes + "\n", encoding="utf-8")
    return sorted(folder.iterdir())


def build_system_packages(root: Path, sdist: Path, wheels: Sequence[Path]) -> None:
    """Make the formula, and where there is dpkg-deb and a Python of the system the package of this machine."""
    sys.path.insert(0, str(root / "packaging"))
    import system_packages

    system_packages.make_formula(sdist, sdist.parent)
    own = [wheel for wheel in wheels if f"linux_2_17_{platform.machine()}." in wheel.name]
    own += [wheel for wheel in wheels if wheel.stem.endswith("-any")]
    if shutil.which("dpkg-deb") and os.path.exists(f"/usr/bin/{system_packages.PYTHON}"):
        system_packages.make_deb(own[0], sdist.parent)


def run(command: Sequence[str], folder: Path, **variables: str) -> None:
    environ = {**os.environ, **variables}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}".rstrip())


def main(arguments: Sequence[str]) -> int:
    """Run one step; return 1 if it cannot be done."""
    if arguments != ["wheels"] and len(arguments) != 2:
        print("usage: release.py wheels | prepare VERSION | build VERSION", file=sys.stderr)
        return 64
    try:
        if arguments == ["wheels"]:
            sdist, *wheels = build_packages(ROOT, ROOT / "dist")
            sdist.unlink()
            print("made " + " ".join(os.path.relpath(path) for path in wheels))
            return 0
        step, version = arguments
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

"""A release: what it writes into the tree, what it builds, and that the wheels run where there is no compiler."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from hooklatch.dashboard.rendering import FOLDER
from hooklatch.version import VERSION
from support.entries import MACHINE
from support.repository import ROOT
from test_layout import tracked

CHANGES = "### Added\n\n- A thing.\n"
NEXT = "99.0.0"
NATIVE = ("x86_64", "aarch64")  # machines that have a wheel of their own for Linux
ENDINGS = {machine: f"musllinux_1_1_{machine}" for machine in NATIVE} | {
    "any": "any", "x86_64-macos": "macosx_11_0_x86_64", "aarch64-macos": "macosx_11_0_arm64",
}  # fmt: skip
GUARD = """from hooklatch import deny, hook

@hook("pre_tool_use", match="shell")
def nothing(event):
    return deny("not here")
"""


def release(root: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(root / "packaging" / "release.py"), *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a tree that has what `prepare` reads and writes, and nothing else."""
    for name in ("packaging/release.py", "supervisor/hooklatch/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    write_changes(tmp_path, CHANGES)
    commit(tmp_path)
    return tmp_path


def commit(root: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "a"]):
        subprocess.run([*git, *words], cwd=root, check=True, capture_output=True)


def write_changes(root: Path, changes: str) -> None:
    (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n\n{changes}\n## 0.0.1 (2026-01-01)\n\n- Old.\n")


def test_what_is_unreleased_becomes_the_version_and_a_second_run_changes_nothing(small: Path) -> None:
    assert release(small, "prepare", NEXT) == (0, "")

    history = (small / "CHANGELOG.md").read_text()
    assert re.search(
        rf"^## Unreleased\n\n## {NEXT} \(\d{{4}}-\d\d-\d\d\)\n\n### Added\n\n- A thing.\n\n## 0.0.1",
        history,
        re.MULTILINE,
    )
    assert f'VERSION = "{NEXT}"' in (small / "supervisor/hooklatch/version.py").read_text()
    assert release(small, "prepare", NEXT) == (0, "")
    assert (small / "CHANGELOG.md").read_text() == history


@pytest.mark.parametrize(
    ("version", "changes", "text"),
    [
        ("1.2", CHANGES, "'1.2' is not a version such as 1.2.3"),
        ("0.0.9", CHANGES, "0.0.9 is older than"),
        ("0.0.1", CHANGES, "take another version"),
        (NEXT, "", "says nothing under '## Unreleased'"),
        (NEXT, "- A thing.\n" * 81, "more than 80 lines under '## Unreleased'"),
    ],
)
def test_a_release_that_would_be_wrong_is_refused_and_changes_nothing(
    small: Path, version: str, changes: str, text: str
) -> None:
    write_changes(small, changes)
    before = (small / "CHANGELOG.md").read_text()

    code, output = release(small, "prepare", version)

    assert (code, text in output) == (1, True), output
    assert (small / "CHANGELOG.md").read_text() == before
    assert f'VERSION = "{VERSION}"' in (small / "supervisor/hooklatch/version.py").read_text()


def test_what_is_not_committed_is_not_released(small: Path) -> None:
    (small / "new.py").write_text("")

    for step in ("prepare", "build"):
        code, output = release(small, step, NEXT)
        assert (code, "new.py: not committed" in output) == (1, True), output


def test_a_version_that_was_not_prepared_is_not_built(small: Path) -> None:
    code, output = release(small, "build", NEXT)

    assert (code, "run `prepare` first" in output) == (1, True), output


def test_the_changelog_has_this_version_and_is_short_about_what_follows() -> None:
    history = (ROOT / "CHANGELOG.md").read_text()

    assert re.search(rf"^## {re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)$", history, re.MULTILINE)
    assert len(re.split(r"^## ", history, flags=re.MULTILINE)[1].splitlines()) <= 80


@dataclass(frozen=True)
class Published:
    """What a release has made, in a copy of the tree."""

    folder: Path

    def wheel(self, machine: str) -> Path:
        (wheel,) = self.folder.glob(f"*{ENDINGS[machine]}.whl")
        return wheel

    def tags(self, machine: str) -> list[str]:
        return zipfile.ZipFile(self.wheel(machine)).read(f"hooklatch-{VERSION}.dist-info/WHEEL").decode().splitlines()


@pytest.fixture(scope="module")
def packager() -> Path:
    """Return the environment that builds; an index is asked for it once."""
    make = "import pathlib, release, sys; release.make_packager(pathlib.Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", make, str(ROOT)], cwd=ROOT / "packaging", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"what builds wheels cannot be had: {done.stderr[-300:]}")
    return ROOT / "build" / "packager"


# By day: the wheel for any machine, by what the tests are installed with.  A compiler for the others is 100 MB to load,
# and compiles a C library for each of them.  The package for Debian is that of tests/test_packages.py.
ANY = """import release, sys
release.MACHINES, release.make_packager, release.shutil.which = ("",), lambda root: sys.executable, lambda name: None
sys.exit(release.main(sys.argv[1:]))
"""


def publish(root: Path, *command: str) -> Published:
    """Build a release by this command, in a copy of the tree."""
    for path in tracked():
        (root / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path.relative_to(ROOT))
    commit(root)
    done = subprocess.run(
        [sys.executable, *command, "build", VERSION],
        cwd=root / "packaging",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Published(root / "dist" / VERSION)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Return a release for no machine of its own."""
    return publish(tmp_path_factory.mktemp("checkout"), "-c", ANY)


@pytest.fixture(scope="module")
def whole(packager: Path, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Return a release as it is."""
    root = tmp_path_factory.mktemp("checkout")
    (root / "build").mkdir()
    (root / "build" / "packager").symlink_to(packager)
    return publish(root, "release.py")


@pytest.mark.slow
@pytest.mark.timeout(900)  # a compiler is loaded, and warmed up for each machine
@pytest.mark.parametrize("kind", ["published", pytest.param("whole", marks=pytest.mark.night)])
def test_a_release_is_an_sdist_wheels_for_each_machine_and_any_the_schemas_and_the_notes(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """Slow: it builds them."""
    published: Published = request.getfixturevalue(kind)
    machines = {
        f"hooklatch-{VERSION}-py3-none-macosx_11_0_arm64.whl",
        f"hooklatch-{VERSION}-py3-none-macosx_11_0_x86_64.whl",
        f"hooklatch-{VERSION}-py3-none-manylinux_2_17_aarch64.musllinux_1_1_aarch64.whl",
        f"hooklatch-{VERSION}-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
    }
    assert {path.name for path in published.folder.iterdir()} == {
        f"hooklatch-{VERSION}.tar.gz",
        f"hooklatch-{VERSION}-py3-none-any.whl",
        *(machines if kind == "whole" else ()),
        f"hooklatch-{VERSION}-schemas.tar.gz",
        "hooklatch.rb",
        "notes.md",
        *(path.name for path in published.folder.glob("*.deb")),  # on Debian alone
    }
    with tarfile.open(published.folder / f"hooklatch-{VERSION}-schemas.tar.gz") as archive:
        names = archive.getnames()
    assert f"hooklatch-{VERSION}-schemas/hooks.toml.schema.json" in names
    assert len(names) > 40
    notes = (published.folder / "notes.md").read_text()
    assert "\n## " not in notes
    assert "### " in notes


@pytest.mark.slow
def test_the_sdist_has_every_file_of_the_repository(published: Published) -> None:
    """Slow: it builds one."""
    with tarfile.open(published.folder / f"hooklatch-{VERSION}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {str(path.relative_to(ROOT)) for path in tracked()} - names == set()


@pytest.mark.slow
def test_the_wheel_has_pages_and_c_source_and_a_description_that_pypi_can_show(published: Published) -> None:
    """Slow: it builds one."""
    wheel = zipfile.ZipFile(published.wheel("any"))
    names = set(wheel.namelist())
    assets = [path for part in ("templates", "static") for path in (FOLDER / part).rglob("*") if path.is_file()]
    assert len(assets) >= 20
    assert {f"hooklatch/dashboard/{path.relative_to(FOLDER).as_posix()}" for path in assets} <= names
    assert "hooklatch/entry/entry.c" in names
    assert "hooklatch/entry/entry" not in names
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    text = wheel.read(metadata).decode()
    assert "Description-Content-Type: text/markdown" in text
    assert "# hooklatch" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == [], "PyPI has no files that such a link could lead to"


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])  # EM_X86_64, EM_AARCH64 of elf(5)
def test_a_wheel_for_a_machine_has_a_static_program_for_it(whole: Published, machine: str, number: int) -> None:
    """Slow: it builds one."""
    wheel = zipfile.ZipFile(whole.wheel(machine))
    program = wheel.read("hooklatch/entry/entry")
    head_offset, head_size, head_count = *struct.unpack_from("<Q", program, 32), *struct.unpack_from("<HH", program, 54)
    kinds = {struct.unpack_from("<I", program, head_offset + head_size * index)[0] for index in range(head_count)}
    tags = whole.tags(machine)

    assert program[:5] == b"\x7fELF\x02"
    assert struct.unpack_from("<H", program, 18) == (number,)
    assert not kinds & {2, 3}, "PT_DYNAMIC, PT_INTERP: it needs libraries of the machine"
    assert {f"Tag: py3-none-{libc}_{machine}" for libc in ("manylinux_2_17", "musllinux_1_1")} < {*tags}
    assert "Root-Is-Purelib: false" in tags


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize(("machine", "kind"), [("x86_64-macos", 0x0100_0007), ("aarch64-macos", 0x0100_000C)])
def test_a_wheel_for_a_mac_has_a_program_for_it_and_its_oldest_system(
    whole: Published, machine: str, kind: int
) -> None:
    """Slow: it builds one.  The numbers are those of mach/machine.h and mach-o/loader.h."""
    program = zipfile.ZipFile(whole.wheel(machine)).read("hooklatch/entry/entry")
    magic, cpu, _, filetype, count = struct.unpack_from("<5I", program)
    commands: list[tuple[int, bytes]] = []
    offset = 32  # of the first command, behind struct mach_header_64
    for _ in range(count):
        command, size = struct.unpack_from("<2I", program, offset)
        commands.append((command, program[offset : offset + size]))
        offset += size
    ((platform, oldest),) = [struct.unpack_from("<2I", data, 8) for command, data in commands if command == 0x32]
    libraries = [data[24:].rstrip(b"\0") for command, data in commands if command == 0xC]  # LC_LOAD_DYLIB

    assert (magic, cpu, filetype) == (0xFEED_FACF, kind, 2), "MH_MAGIC_64, CPU_TYPE_*, MH_EXECUTE"
    assert (platform, oldest >> 16) == (1, 11), "LC_BUILD_VERSION: PLATFORM_MACOS, and the version of the wheel's tag"
    assert libraries == [b"/usr/lib/libSystem.B.dylib"]
    assert machine != "aarch64-macos" or 0x1D in dict(commands), "LC_CODE_SIGNATURE: else it is killed at its start"
    assert f"Tag: py3-none-{ENDINGS[machine]}" in whole.tags(machine)


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path, machine: str) -> Iterator[dict[str, str]]:
    """Install the wheel in a new venv, and yield an environment whose PATH has its commands and no compiler.

    The dependencies are those of the tests, so no index is asked; this checkout is not among them.
    """
    published: Published = request.getfixturevalue("published" if machine == "any" else "whole")
    folder = tmp_path / "venv"
    venv.create(folder)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", f"--python={folder}/bin/python", "install", "--quiet", "--no-index", "--no-deps",
         "--disable-pip-version-check", str(published.wheel(machine))],
        check=True, capture_output=True,
    )  # fmt: skip
    (packages / "dependencies.pth").write_text(f"{Path(trio.__file__).parents[1]}\n")
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_text("{}\n")
    (home / "run").mkdir(mode=0o700)
    environment = {"PATH": str(folder / "bin"), "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run")}
    yield environment
    hooklatch(environment, "stop")


def hooklatch(environment: dict[str, str], *words: str, text: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [f"{environment['PATH']}/hooklatch", *words],
        env=environment, cwd=environment["HOME"], input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "form"),
    [("any", "python"), *([pytest.param(MACHINE, "c", marks=pytest.mark.night)] if MACHINE in NATIVE else [])],
)
def test_a_wheel_guards_an_agent_where_there_is_no_compiler(installed: dict[str, str], form: str) -> None:
    """Slow: it makes a venv and starts a daemon."""
    home = Path(installed["HOME"])
    assert hooklatch(installed, "--version")[1].split() == ["hooklatch", VERSION]
    guards = home / ".config/hooklatch/hooks.d"
    guards.mkdir(parents=True, mode=0o700)
    (home / ".config/hooklatch/hooks.toml").write_text("")
    (guards / "guard.py").write_text(GUARD)
    code, output = hooklatch(installed, "serve", "--detach")
    assert code == 0, output

    code, output = hooklatch(
        installed, "fire", "pre_tool_use", text='{"tool_name": "Bash", "tool_input": {"command": "ls"}}'
    )
    assert (code, "not here" in output) == (2, True), output

    code, output = hooklatch(installed, "install", "claude-code")
    assert (code, "the entry is the Python form" in output) == (0, form == "python"), output
    assert (hooklatch(installed, "install", "claude-code", "--form", "c")[0] == 0) is (form == "c")
    (host,) = json.loads(hooklatch(installed, "doctor", "--json")[1])["hosts"]
    assert (host["form"], host["canary"], host["without_daemon"]) == (form, "refused by the daemon", "refused")
    assert ("/entry-" in (home / ".claude/settings.json").read_text()) is (form == "c")

"""A look at an interpreter: who could have written it, and whether it can run hooks."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from hooklatch.environments.interpreter import examine_interpreter, stamp_interpreter_file
from hooklatch.processes.environment_slot import EnvironmentFaultError
from support.daemons import nothing_left

FOREIGN = "#!/bin/sh\nprintf '%s' '{answer}'\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def packages_of(python: Path) -> Path:
    return next((python.parents[1] / "lib").iterdir()) / "site-packages"


async def test_an_environment_has_its_own_packages_and_ours_alone(python: Path) -> None:
    with nothing_left():
        found, watched = await examine_interpreter(str(python))

    assert found.prefix == str(python.parents[1])
    assert str(packages_of(python)) in found.path
    assert not set(found.path) & {path for path in sys.path if "site-packages" in path}
    assert set(found.ours) == {"hooklatch", "hooklatch_worker"}
    assert {str(python), str(packages_of(python)), f"{found.prefix}/pyvenv.cfg"} <= set(watched)


async def test_a_pth_file_is_read_and_not_run(python: Path, tmp_path: Path) -> None:
    pth = packages_of(python) / "editable.pth"
    pth.write_text(f"{tmp_path}\nimport os; os.mkdir({str(tmp_path / 'was-run')!r})\n")
    try:
        found, _ = await examine_interpreter(str(python))
    finally:
        pth.unlink()

    assert str(tmp_path) in found.path
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["", "bin", "pyvenv.cfg", "site-packages", "site-packages/module.py"])
async def test_what_others_could_write_to_is_refused(python: Path, place: str) -> None:
    root = python.parents[1]
    path = packages_of(python) / place.partition("/")[2] if place.startswith("site") else root / place
    if place.endswith(".py"):
        path.write_text("")
    before = path.stat().st_mode
    path.chmod(before | 0o002)
    try:
        with pytest.raises(EnvironmentFaultError, match=r"writable by others; fix it with: chmod .*go-w") as caught:
            await examine_interpreter(str(python))
    finally:
        path.chmod(before)

    assert str(path) in str(caught.value)


async def test_a_link_to_what_others_could_write_is_refused(python: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    link = packages_of(python) / "linked"
    link.symlink_to(shared)
    try:
        with pytest.raises(EnvironmentFaultError, match="shared is writable by others"):
            await examine_interpreter(str(python))
    finally:
        link.unlink()


@pytest.mark.parametrize("name", ["folder", "nothing"])
async def test_what_others_could_put_where_a_link_leads_is_refused(python: Path, tmp_path: Path, name: str) -> None:
    link = packages_of(python) / "linked"
    link.symlink_to(tmp_path / name)
    try:
        if name == "folder":
            (tmp_path / name).mkdir(0o700)
            (tmp_path / name / "module.py").touch()
        await examine_interpreter(str(python))  # nobody else can reach it

        (tmp_path / name / "module.py" if name == "folder" else tmp_path).chmod(0o777)
        with pytest.raises(EnvironmentFaultError, match="writable by others"):
            await examine_interpreter(str(python))
    finally:
        link.unlink()


@pytest.mark.parametrize("line", ["lib", "lib/below/it"])
async def test_what_others_could_put_where_a_pth_file_leads_is_refused(python: Path, tmp_path: Path, line: str) -> None:
    pth = packages_of(python) / "editable.pth"
    pth.write_text(f"{tmp_path}/{line}\n{'x' * 5000}\n")
    try:
        found, _ = await examine_interpreter(str(python))
        assert not [path for path in found.path if path.startswith(str(tmp_path))]

        os.chmod(tmp_path, 0o777)
        with pytest.raises(EnvironmentFaultError, match=f"nothing is at {tmp_path}/{line}, and others could put"):
            await examine_interpreter(str(python))
    finally:
        pth.unlink()


async def test_what_is_written_while_it_is_looked_at_counts_as_a_change(python: Path) -> None:
    busy = python.with_name("busy")
    busy.write_text(f'#!/bin/sh\nmktemp {packages_of(python)}/XXXXXX >/dev/null\nexec {python} "$@"\n')
    busy.chmod(0o755)
    try:
        _, marks = await examine_interpreter(str(busy))
    finally:
        busy.unlink()

    packages = str(packages_of(python))
    assert marks[packages] != stamp_interpreter_file(packages)


async def test_what_is_neither_run_nor_imported_may_be_as_it_is(python: Path) -> None:
    lock = python.parents[1] / ".lock"  # as uv leaves it
    lock.touch()
    lock.chmod(0o666)

    found, _ = await examine_interpreter(str(python))

    assert found.prefix == str(python.parents[1])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('{"version": [3, 9, 18]}', "is Python 3.9.18; hooks need 3.11 or later"),
        ("hello", "does not answer like a Python interpreter"),
        ('{"version": [3, 13, 1]}', "cannot run hooks: "),
    ],
)
async def test_what_cannot_run_hooks_is_said(tmp_path: Path, answer: str, text: str) -> None:
    program = tmp_path / "python"
    program.write_text(FOREIGN.format(answer=answer))
    program.chmod(0o755)

    with pytest.raises(EnvironmentFaultError, match=text):
        await examine_interpreter(str(program))


async def test_what_is_not_there_or_no_program_is_said(tmp_path: Path) -> None:
    (tmp_path / "python").touch()

    with pytest.raises(EnvironmentFaultError, match="does not exist; make the environment"):
        await examine_interpreter(str(tmp_path / "nothing"))
    with pytest.raises(EnvironmentFaultError, match="is not a program"):
        await examine_interpreter(str(tmp_path / "python"))
    with pytest.raises(EnvironmentFaultError, match="ended with code 1"):
        await examine_interpreter("/bin/false")


async def test_without_our_packages_it_says_what_to_install(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.environments.interpreter.read_soabi", lambda: "another-abi")

    with pytest.raises(EnvironmentFaultError, match=f'{python} -m pip install "msgspec>='):
        await examine_interpreter(str(python))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_what_belongs_to_somebody_else_is_refused(python: Path) -> None:
    path = packages_of(python) / "theirs.py"
    path.write_text("")
    os.chown(path, 12345, 12345)
    try:
        with pytest.raises(EnvironmentFaultError, match="belongs to user 12345"):
            await examine_interpreter(str(python))
    finally:
        path.unlink()

"""Where an entry finds the daemon, and what it does if there is none: with real daemons."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hooklatch import paths
from support.commands import PROGRAM, Place, new_place, serving
from support.entries import DOCUMENT, FORMS, Daemon, Talk, command, result, run, start
from support.strangers import NOBODY as ANOTHER
from support.strangers import as_root, listener_of_another
from support.survivors import COOKIE, nobody_survives

Serve = Callable[[bytes | Talk], Daemon]
NOBODY = b"hooklatch is not running"
NOBODYS = 12345


def point_at(home: str, folder: str) -> Path:
    pointer = Path(home, ".local/state/hooklatch", paths.POINTER)
    pointer.parent.mkdir(parents=True)
    pointer.touch(0o600)
    pointer.write_text(f"{folder}\n")
    return pointer


@pytest.mark.parametrize("form", FORMS)
def test_where_nobody_listens_the_pointer_is_followed(form: str, serve: Serve, folder: str, tmp_path: Path) -> None:
    serve(result(2, "", "there"))
    point_at(str(tmp_path), folder)

    assert run(form, None, environ={"HOME": str(tmp_path)}) == (2, b"", b"there")


@pytest.mark.parametrize("form", FORMS)
def test_the_usual_directory_comes_before_the_pointer(form: str, serve: Serve, folder: str) -> None:
    home = f"{folder}/h"
    os.makedirs(f"{home}/.local/state/hooklatch/run")
    here = Daemon(f"{home}/.local/state/hooklatch/run", result(2, "", "here"))
    serve(result(2, "", "there"))
    os.makedirs(f"{home}/state/hooklatch")
    pointer = Path(home, "state/hooklatch", paths.POINTER)
    pointer.touch(0o600)
    pointer.write_text(f"{folder}\n")

    done = run(form, None, environ={"HOME": home, "XDG_STATE_HOME": f"{home}/state"})
    here.close()

    assert done == (2, b"", b"here")


@pytest.mark.parametrize("form", FORMS)
def test_a_pointer_that_others_could_have_written_is_not_followed(
    form: str, serve: Serve, folder: str, tmp_path: Path
) -> None:
    daemon = serve(result())
    pointer = point_at(str(tmp_path), folder)

    def is_followed() -> bool:
        return NOBODY not in run(form, None, environ={"HOME": str(tmp_path)})[2]

    pointer.chmod(0o620)
    assert not is_followed()
    pointer.chmod(0o604)
    assert not is_followed()
    pointer.chmod(0o600)
    pointer.symlink_to(pointer.rename(pointer.with_name("target")))
    assert not is_followed()

    assert daemon.lines == []


@as_root
@pytest.mark.parametrize("form", FORMS)
def test_another_users_socket_is_not_believed_whatever_led_there(form: str, folder: str, tmp_path: Path) -> None:
    os.chmod(folder, 0o777)
    point_at(str(tmp_path), folder)

    with listener_of_another(f"{folder}/agent.sock", says=result()) as heard:
        pointed = run(form, None, environ={"HOME": str(tmp_path)})
        in_environment = run(form, None, environ={"HOME": "/none", "HOOKLATCH_RUNTIME_DIR": folder})
        in_command = run(form, folder, daemon_uid=NOBODYS)
        named = run(form, folder, daemon_uid=ANOTHER)

    for code, stdout, stderr in (pointed, in_environment, in_command):
        assert (code, stdout) == (2, b"")
        assert NOBODY in stderr
    assert named == (0, b"", b"")
    assert heard().count(b'"method":"host"') == 1  # nothing was said to who is not trusted


@pytest.mark.parametrize("form", FORMS)
def test_a_daemons_user_is_a_number(form: str, folder: str) -> None:
    words = command(form, "codex", "PreToolUse", "gate", 30, runtime_dir=folder)
    for uid in ("nobody", "-1", "4294967295", "99999999999", "1 "):
        with start([*words, "--daemon-uid", uid]) as entry:
            assert b"--daemon-uid needs the number of a user" in entry.communicate()[1]


# -- real daemons --------------------------------------------------------------------------------------------------


@pytest.fixture
def place() -> Iterator[Place]:
    with nobody_survives() as word, new_place() as place:
        place.environment[COOKIE] = word
        yield place


def bare(place: Place) -> dict[str, str]:
    """Return an environment that knows nothing of the daemon's runtime directory."""
    return {name: value for name, value in place.environment.items() if name != "HOOKLATCH_RUNTIME_DIR"}


def test_a_daemon_says_where_it_listens_and_takes_it_back(place: Place) -> None:
    pointer = place.folder / ".local/state/hooklatch" / paths.POINTER

    with serving(place):
        assert pointer.read_text() == f"{place.runtime}\n"
        assert pointer.stat().st_mode & 0o777 == 0o600
        found = subprocess.run([*PROGRAM, "health"], env=bare(place), capture_output=True, text=True, check=False)
        assert (found.returncode, found.stdout) == (0, "ready\n")

    assert not pointer.exists()


@pytest.mark.parametrize("form", FORMS)
def test_an_entry_of_a_cron_job_finds_the_daemon(form: str, place: Place) -> None:
    with serving(place):
        assert NOBODY not in run(form, None, environ=bare(place))[2]


def test_a_pointer_that_a_killed_daemon_left_does_no_harm(place: Place) -> None:
    with serving(place) as daemon:
        daemon.signal(signal.SIGKILL)
        daemon.process.wait()

        assert NOBODY in run("python", None, environ=bare(place))[2]


@pytest.mark.parametrize("form", FORMS)
def test_entries_at_the_same_moment_start_one_daemon(form: str, place: Place) -> None:
    words = command(form, "codex", "PreToolUse", "gate", 60, runtime_dir=place.runtime, start=True)

    entries = [start(words, environ=place.environment) for _ in range(4)]
    done = [entry.communicate(DOCUMENT) for entry in entries]
    ended = place.run("stop")
    log = (place.folder / ".local/state/hooklatch/daemon.log").read_text()

    assert [stderr for _, stderr in done if NOBODY in stderr or b"started" in stderr] == []
    assert ended.returncode == 0
    assert log.count("ready") == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_daemon_that_cannot_start_is_a_refusal(form: str, place: Place) -> None:
    place.runtime.write_text("no directory")

    code, stdout, stderr = run(form, str(place.runtime), environ=place.environment, starts=True)

    assert (code, stdout) == (2, b"")
    assert b"hooklatch could not be started" in stderr


def test_an_event_that_nobody_waits_for_starts_nothing(place: Place) -> None:
    run("python", str(place.runtime), kind="notify", environ=place.environment, starts=True)

    assert not place.runtime.exists()

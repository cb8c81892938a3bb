"""Sockets that a manager passes on: which are taken, and which are refused, and with what words.

Slow: where a daemon has to say it, it is a program of its own.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hooklatch.service.socket_activation import ActivationError, find_bound_path, take_sockets
from hooklatch_worker.systems import linux
from support.service_manager import Manager, bound, leave, managing, open_sockets
from support.survivors import knowing


@pytest.fixture
def manager() -> Generator[Manager]:
    with managing() as manager:
        yield manager


def test_sockets_of_another_process_are_left_alone_and_the_variables_are_forgotten() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "agent:admin", "HOME": "/"}

    assert take_sockets(environ, os.getpid()) is None
    assert environ == {"HOME": "/"}


@pytest.mark.parametrize(
    ("count", "names"),
    [("1", "agent"), ("2", "agent"), ("2", "hooklatch.socket:hooklatch.socket"), ("3", "agent:admin"), ("2", "")],
)
def test_other_sockets_than_the_two_are_refused(count: str, names: str) -> None:
    environ = {"LISTEN_PID": "7", "LISTEN_FDS": count, "LISTEN_FDNAMES": names}

    with pytest.raises(ActivationError, match="FileDescriptorName=agent and =admin"):
        take_sockets(environ, 7)


@pytest.mark.parametrize("count", ["0", "-1", "many", "100000"])
def test_a_number_that_is_none_is_refused(count: str) -> None:
    with pytest.raises(ActivationError, match="not a number of sockets"):
        take_sockets({"LISTEN_PID": "7", "LISTEN_FDS": count}, 7)


@pytest.mark.slow
def test_a_daemon_serves_on_what_it_was_given_and_leaves_it(manager: Manager) -> None:
    daemon = manager.start("--json")
    manager.hear_of("READY")

    denied = manager.place.fire_tool("Bash", command="rm x")
    status = manager.place.json("status")
    leave(daemon)

    assert denied.returncode == 2
    assert status["places"]["agent"] == f"{manager.place.runtime}/agent.sock"
    assert manager.sockets["agent"].getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


@pytest.mark.slow
def test_a_client_that_came_before_the_daemon_is_answered(manager: Manager) -> None:
    early = manager.place.begin("health", "--wait", "20")
    daemon = manager.start()
    code, out, _ = early.end()
    leave(daemon)

    assert (code, out) == (0, "ready\n")


@pytest.mark.slow
def test_no_process_below_the_daemon_holds_the_sockets(manager: Manager) -> None:
    daemon = manager.start()
    manager.hear_of("READY")
    listening = {os.readlink(f"/proc/self/fd/{one.fileno()}") for one in manager.sockets.values()}

    below = list(linux.list_descendants(daemon.pid))
    held = [pid for pid in below if open_sockets(pid) & listening]
    ours = open_sockets(os.getpid()) & listening  # the daemon shows its own to root alone
    leave(daemon)

    assert len(below) >= 3  # the zygote, workers
    assert ours == listening
    assert held == []


def open_to_others(manager: Manager) -> list[int]:
    (manager.place.runtime / "agent.sock").chmod(0o660)
    return [one.fileno() for one in manager.sockets.values()]


def open_folder(manager: Manager) -> list[int]:
    manager.place.runtime.chmod(0o755)
    return [one.fileno() for one in manager.sockets.values()]


def swapped(manager: Manager) -> list[int]:
    return [one.fileno() for one in reversed(manager.sockets.values())]


def replaced(manager: Manager) -> list[int]:
    (manager.place.runtime / "agent.sock").unlink()
    (manager.place.runtime / "agent.sock").touch(0o600)
    return [one.fileno() for one in manager.sockets.values()]


def datagrams(manager: Manager) -> list[int]:
    manager.sockets["agent"].close()
    (manager.place.runtime / "agent.sock").unlink()
    manager.sockets["agent"] = bound(manager.place.runtime / "agent.sock", kind=socket.SOCK_DGRAM)
    return [one.fileno() for one in manager.sockets.values()]


def not_listening(manager: Manager) -> list[int]:
    manager.sockets["agent"].close()
    (manager.place.runtime / "agent.sock").unlink()
    manager.sockets["agent"] = socket.socket(socket.AF_UNIX)
    manager.sockets["agent"].bind(str(manager.place.runtime / "agent.sock"))
    return [one.fileno() for one in manager.sockets.values()]


def a_file(manager: Manager) -> list[int]:
    manager.sockets["agent"].close()
    path = manager.place.folder / "file"
    path.touch()
    manager.sockets["agent"] = path.open()  # type: ignore[assignment]  # for close() and fileno() alone
    return [one.fileno() for one in manager.sockets.values()]


def abstract(manager: Manager) -> list[int]:
    manager.sockets["agent"].close()
    manager.sockets["agent"] = socket.socket(socket.AF_UNIX)
    manager.sockets["agent"].bind(f"\0hooklatch-{os.getpid()}")
    manager.sockets["agent"].listen()
    return [one.fileno() for one in manager.sockets.values()]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (open_to_others, "SocketMode=0600"),
        (open_folder, "DirectoryMode=0700"),
        (swapped, "clients look for FOLDER/agent.sock"),
        (replaced, "something else is now"),
        (datagrams, "not a Unix stream socket"),
        (not_listening, "does not listen"),
        (a_file, "is not a socket"),
        pytest.param(
            abstract, "clients look for FOLDER/agent.sock", marks=pytest.mark.linux_only("abstract names of sockets")
        ),
    ],
)
def test_a_socket_that_is_not_ours_is_refused_in_words(
    manager: Manager, spoil: Callable[[Manager], list[int]], text: str
) -> None:
    fd = spoil(manager)[0]

    with pytest.raises(ActivationError, match=text):
        find_bound_path("agent", fd)


@pytest.mark.slow
def test_a_daemon_that_is_given_such_a_socket_does_not_start(manager: Manager) -> None:
    code, out, err = manager.start(fds=open_to_others(manager)).end()

    assert (code, out) == (69, "")
    assert "SocketMode=0600" in err
    assert "Traceback" not in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_socket_of_another_user_is_refused(manager: Manager) -> None:
    os.chown(manager.place.runtime / "admin.sock", 12345, -1)

    with pytest.raises(ActivationError, match="is of user 12345, not of this one"):
        find_bound_path("admin", manager.sockets["admin"].fileno())


def test_a_descriptor_that_is_not_open_is_refused() -> None:
    with pytest.raises(ActivationError, match="is not open"):
        find_bound_path("agent", 900)


@pytest.mark.slow
def test_a_daemon_that_somebody_starts_by_hand_leaves_the_managers_sockets_alone(manager: Manager) -> None:
    done = manager.place.run("serve")

    assert done.returncode == 69
    assert "systemctl --user start hooklatch" in done.stderr


@pytest.mark.slow
def test_a_signal_before_it_is_ready_ends_it_cleanly(manager: Manager) -> None:
    held = manager.start("--json")
    manager.hear_of("READY")
    waiting = manager.start()
    waiting.wait_for("waiting: another hooklatch daemon")
    waiting.signal(signal.SIGTERM)
    code, _, err = waiting.end()
    leave(held)

    assert code == 0
    assert "stopping before it was ready" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_signal_while_hooks_are_imported_ends_it_cleanly_and_nothing_is_left(manager: Manager) -> None:
    imported = manager.place.folder / "imported"
    os.mkfifo(imported)
    manager.place.write({"guards.py": f"open({str(imported)!r}, 'w').close()\nimport time\ntime.sleep(60)\n"})
    daemon = manager.start()
    imported.open().close()
    word = manager.place.environment["HOOKLATCH_TEST_COOKIE"]
    while len(knowing(word)) < 3:  # the daemon, its zygote, the worker that imports
        continue

    daemon.signal(signal.SIGTERM)
    code, _, err = daemon.end()

    assert code == 0
    assert "Traceback" not in err
    assert Path(manager.place.runtime / "agent.sock").exists()

"""A daemon that is stopped costs ten seconds, and one whose hooks are slow is waited for."""

from __future__ import annotations

import socket
import subprocess

import pytest

from support.entries import DOCUMENT, FORMS, command, result, start

pytestmark = pytest.mark.slow  # each waits for 5 s of silence; all forms at once


def give(entry: subprocess.Popen[bytes], document: bytes) -> None:
    assert entry.stdin is not None
    entry.stdin.write(document)
    entry.stdin.close()
    entry.stdin = None  # it reads all of it before it asks, so the others wait at the same time


def test_a_daemon_that_is_silent_even_to_a_ping_is_given_up(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as stopped:  # connects out of the backlog, as a stopped process does
        stopped.bind(f"{folder}/agent.sock")
        stopped.listen()

        entries = [
            start(command(form, "codex", "PreToolUse", "gate", 600, runtime_dir=folder))
            for form in FORMS
            for _ in range(2)
        ]
        for count, entry in enumerate(entries):  # the second of each has more to send than a socket takes
            give(entry, DOCUMENT * (1 + count % 2 * 2**14))
        done = [entry.communicate() for entry in entries]

    assert {entry.returncode for entry in entries} == {2}
    assert {stdout for stdout, _ in done} == {b""}
    assert all(b"is silent, even to a ping" in stderr for _, stderr in done)


def test_a_slow_answer_is_waited_for_while_pings_are_answered(folder: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/agent.sock")
        listener.listen()

        entries = [start(command(form, "codex", "PreToolUse", "gate", 600, runtime_dir=folder)) for form in FORMS]
        for entry in entries:
            give(entry, DOCUMENT)
        waiting: list[socket.socket] = []
        while len(waiting) < len(FORMS):  # those of the requests come first: a ping comes after 5 s
            waiting.append(listener.accept()[0])
        for _ in FORMS:
            with listener.accept()[0] as ping:
                assert b'"ping"' in ping.recv(100)
                ping.sendall(b"{}\n")
        for request in waiting:
            with request:
                request.sendall(result(2, "", "late"))
        done = [entry.communicate() for entry in entries]

    assert done == [(b"", b"late")] * len(FORMS)

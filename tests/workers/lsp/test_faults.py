"""Misbehaving servers: the hook still ends in time and says nothing, and keeps or replaces the server."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest

from hooklatch_worker.lsp import diagnostics, servers
from hooklatch_worker.lsp.client import LanguageServer
from hooklatch_worker.systems import linux, system
from support.daemons import nothing_left
from workers.lsp.workspace import PATIENCE, Workspace

BAD = "x = 1\nBAD = 2\n"
GOOD = "x = 1\n"
LINE = "[lsp diagnostics]\nerror: this is BAD at a.py:2:1"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(servers, "MAX_SERVERS", 2)
    monkeypatch.setattr(servers, "MAX_SILENCE", 0.0)
    monkeypatch.setattr(diagnostics, "SERVERS", servers.LanguageServers(clock=clock))
    return clock


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["publish", "pull", "twice", "stale", "asks", "pull_later", "helper"])
def test_a_sound_server_is_understood(workspace: Workspace, mode: str) -> None:
    """Slow: a server that publishes is given 150 ms for a second word, and this one is asked three times."""
    workspace.use_fake(mode)

    answers = [workspace.edit("a.py", text) for text in (BAD, GOOD, BAD)]

    assert answers == [LINE, None, LINE]
    assert workspace.starts == 1


def test_a_servers_requests_are_answered_before_it_is_waited_for(workspace: Workspace) -> None:
    workspace.use_fake("asks")

    workspace.edit("a.py", BAD)
    diagnostics.close_servers()

    answers = {record["id"]: record.get("result", record.get("error")) for record in workspace.logged if "id" in record}
    assert answers["q0"] == [None, None]
    assert (answers["q1"], answers["q2"], answers["q3"]) == (None, None, None)
    assert answers["q4"]["code"] == -32601


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("hang", id="XA-48 hangs"),
        pytest.param("never_answers", id="XA-48 never answers"),
        pytest.param("quiet", id="XA-48 says nothing of the file"),
        pytest.param("flood", id="XA-48 never stops talking"),
    ],
)
def test_nothing_in_time_is_silence(workspace: Workspace, mode: str) -> None:
    """Slow: a timeout has to pass."""
    workspace.use_fake(mode)
    workspace.config["timeout"] = 0.4

    assert workspace.edit("a.py", BAD) is None
    assert 0.35 < workspace.seconds < diagnostics.MAX_TIMEOUT


@pytest.mark.parametrize(
    "mode",
    ["dies", "die_on_open", "refuse", "garbage", "no_json", "no_length", "huge", "wrong_shape", "closes_output"],
)
def test_a_broken_server_is_given_up_at_once(workspace: Workspace, mode: str) -> None:
    workspace.use_fake(mode)

    assert workspace.edit("a.py", BAD) is None
    assert workspace.seconds < workspace.config["timeout"]
    assert workspace.pids == []


def test_a_program_that_does_not_start_is_no_server(workspace: Workspace) -> None:
    broken = workspace.write("broken", "#!/no/such/interpreter\n")
    broken.chmod(0o755)
    workspace.config["servers"] = {".py": [str(broken)]}

    assert workspace.edit("a.py", BAD) is None


@pytest.mark.slow
def test_a_server_that_starts_slowly_is_ready_for_a_later_edit(workspace: Workspace) -> None:
    """Slow: the server takes 0.4 s to start."""
    workspace.use_fake("slow_start")
    patience, workspace.config["timeout"] = workspace.config["timeout"], 0.15

    first = workspace.edit("a.py", BAD)
    workspace.config["timeout"] = patience
    second = workspace.edit("a.py", BAD)

    assert (first, second) == (None, LINE)
    assert workspace.starts == 1


def test_a_server_that_ended_between_two_edits_is_started_anew(workspace: Workspace) -> None:
    workspace.use_fake("pull")
    workspace.edit("a.py", BAD)
    [pid] = workspace.pids
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    assert workspace.edit("a.py", BAD) == LINE
    assert workspace.starts == 2


@pytest.mark.slow
@pytest.mark.parametrize("has_waitid", [True, False], ids=["waitid", "as on macOS"])
def test_the_end_of_a_server_is_known_and_its_pid_kept_until_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_waitid: bool
) -> None:
    if not has_waitid:  # Python has it on macOS since 3.13
        monkeypatch.delattr("os.waitid")
    with nothing_left():
        server = LanguageServer(["cat"], str(tmp_path))
        assert not server.has_ended
        handle = system.watch_process(server.pid)

        os.kill(server.pid, signal.SIGKILL)

        assert select.select([handle], [], [], PATIENCE)[0]
        os.close(handle)
        assert server.has_ended
        assert server.has_ended
        assert system.read_process_state(server.pid) == b"Z"
        assert server.close() == []


def test_one_that_ends_again_and_again_is_held_off_ever_longer(workspace: Workspace, clock: Clock) -> None:
    """Slow: five servers start."""
    workspace.use_fake("dies")
    starts: list[int] = []

    for seconds in (0, 0, 0.9, 0.2, 1.8, 0.3, 3.8, 0.3):
        clock.now += seconds
        workspace.edit("a.py", BAD)
        starts.append(workspace.starts)

    assert starts == [1, 2, 2, 3, 3, 4, 4, 5]


def test_one_that_works_again_is_forgiven(workspace: Workspace, clock: Clock) -> None:
    workspace.use_fake("moody")
    mood = workspace.write("../server.log.moody", "")
    failed = [workspace.edit("a.py", BAD) for _ in range(3)]
    mood.unlink()
    clock.now += 1.1
    workspace.edit("a.py", BAD)
    [pid] = workspace.pids
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    assert workspace.edit("a.py", BAD) == LINE
    assert failed == [None] * 3
    assert workspace.starts == 4


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "most"), [("hang", 6), ("never_answers", 3)])
def test_a_hung_server_is_killed_after_three_calls_and_started_anew(
    workspace: Workspace, clock: Clock, mode: str, most: int
) -> None:
    """Slow: some timeouts have to pass. One that hangs has been heard first, by the third call."""
    workspace.use_fake(mode)
    workspace.config["timeout"] = 0.2
    seen: list[list[int]] = []

    while [] not in seen[:-1]:
        workspace.edit("a.py", f"{BAD}{len(seen)}")
        seen.append(workspace.pids)

    *alive, dead, anew = seen
    assert 3 <= len(seen) - 1 <= most
    assert alive == [alive[0]] * len(alive)
    assert (dead, len(anew)) == ([], 1)
    assert anew != alive[0]


@pytest.mark.slow
def test_a_server_that_has_nothing_to_say_is_not_taken_for_hung(workspace: Workspace, clock: Clock) -> None:
    """Slow: six timeouts have to pass."""
    workspace.use_fake("quiet")
    workspace.config["timeout"] = 0.2

    for number in range(7):
        workspace.edit("a.py", f"{GOOD}{number}")
        workspace.wait_until(lambda: len(workspace.logged) > number)  # noqa: B023  (it has read this edit)

    assert workspace.starts == 1
    assert workspace.sent("$/hooklatch/probe")


def test_a_refused_question_is_no_diagnostics(workspace: Workspace) -> None:
    workspace.use_fake("pull_error")

    assert workspace.edit("a.py", BAD) is None
    assert workspace.seconds < workspace.config["timeout"]
    assert len(workspace.pids) == 1


def test_the_least_recently_used_server_makes_room(workspace: Workspace, clock: Clock) -> None:
    workspace.use_fake("pull")
    for project in ("one", "two", "one", "three"):
        workspace.write(f"{project}/pyproject.toml", "")
        workspace.edit(f"{project}/a.py", GOOD)

    assert [os.path.basename(root) for _, root in diagnostics.SERVERS.pids] == ["one", "three"]


def test_an_idle_server_is_closed_at_the_next_call(workspace: Workspace, clock: Clock) -> None:
    workspace.use_fake("pull")
    workspace.edit("a.py", GOOD)

    clock.now += 601
    workspace.edit("a.txt", "")

    assert workspace.pids == []
    assert workspace.sent("exit") == [{}]


def test_a_file_that_another_program_changed_is_closed(workspace: Workspace) -> None:
    workspace.use_fake("pull")
    workspace.edit("a.py", GOOD)
    workspace.edit("b.py", GOOD)
    workspace.write("a.py", BAD)

    workspace.edit("b.py", BAD)

    assert [params["textDocument"]["uri"].rpartition("/")[2] for params in workspace.sent("textDocument/didClose")] == [
        "a.py"
    ]


def test_a_helper_that_left_the_servers_group_dies_with_it(workspace: Workspace) -> None:
    workspace.use_fake("helper")
    workspace.edit("a.py", GOOD)
    [helper] = [record["helper"] for record in workspace.logged if "helper" in record]

    with nothing_left():
        diagnostics.close_servers()

    assert not is_running(helper)


def test_a_server_dies_with_the_process_that_started_it(workspace: Workspace) -> None:
    workspace.use_fake("hang")
    workspace.config["timeout"] = 0.2
    child = os.fork()
    if child == 0:
        workspace.edit("a.py", BAD)
        workspace.wait_until(lambda: workspace.starts == 1)
        os._exit(0)

    os.waitpid(child, 0)

    [start] = [record for record in workspace.logged if "start" in record]
    assert start["ppid"] == child
    assert not is_running(start["start"])


def is_running(pid: int) -> bool:
    """Return whether a process still runs after a second in which it may die."""
    for _ in range(100):
        if is_gone(pid):
            return False
        time.sleep(0.01)
    return True


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(") ")[2][0] == "Z"
    except OSError:
        return True


def test_nobody_but_this_process_is_a_parent_of_servers(workspace: Workspace) -> None:
    workspace.use_fake("pull")
    workspace.edit("a.py", GOOD)

    assert set(workspace.pids) <= set(linux.list_children())

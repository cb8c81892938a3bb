"""serve: start, end, and behaviour when something is wrong.

Slow: each test has a daemon of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import PATIENCE, PROGRAM, Pause, Place, Started, new_place, payload, serving

pytestmark = pytest.mark.slow


def test_the_ready_line_says_where_it_listens(place: Place) -> None:
    with serving(place) as daemon:
        ready = daemon.ready

    assert ready == {
        "ready": True,
        "agent": f"{place.runtime}/agent.sock",
        "admin": f"{place.runtime}/admin.sock",
        "pid": daemon.pid,
        "revision": ready["revision"],
        "wrong": [],
    }


def test_a_daemon_that_starts_red_says_what_is_wrong(place: Place) -> None:
    place.write({"hooks.d/broken.py": "import nothing_of_that_name\n"})

    done = place.run("serve", "--detach")
    stopped = place.run("stop")

    assert (done.returncode, stopped.returncode) == (0, 0)
    assert "hooklatch: red: " in done.stderr
    assert "broken.py:1: ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize("option", ["--config", "--runtime-dir"])
def test_a_place_whose_name_is_not_utf_8_is_refused(place: Place, option: str) -> None:
    folder = place.folder / os.fsdecode(b"n\xe9")
    folder.mkdir(mode=0o700)
    (folder / "hooks.toml").touch()

    done = place.run("serve", option, str(folder / "hooks.toml" if option == "--config" else folder))

    assert done.returncode == 69
    assert "its name is not UTF-8; rename it" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_system_refuses_at_the_start_is_one_line_with_the_path(place: Place) -> None:
    lock = place.folder / ".local" / "state" / "hooklatch" / "daemon.lock"
    lock.mkdir(parents=True)
    lock.parent.chmod(0o700)

    done = place.run("serve")

    assert done.returncode == 69
    assert done.stderr == f"hooklatch: {lock} cannot be accessed: Is a directory\n"


def test_a_signal_that_means_nothing_does_not_end_it(place: Place) -> None:
    with serving(place) as daemon:
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGRTMIN):
            daemon.signal(number)
            daemon.wait_for(f"signal={number:d}")
        asked = place.run("health")

    assert asked.returncode == 0


def test_the_human_ready_line_and_the_log_in_human_form(place: Place) -> None:
    started = place.begin("serve")

    line = started.line()
    started.signal(signal.SIGTERM)
    code, rest, log = started.end()

    assert line == (
        f"hooklatch is ready: agent {place.runtime}/agent.sock, admin {place.runtime}/admin.sock "
        f"(pid {started.pid}, revision {line.split()[-1]}\n"
    )
    assert (code, rest) == (0, "")
    assert " INFO    hooklatch.daemon: draining signal=15\n" in log


def test_the_log_level_is_obeyed(place: Place) -> None:
    with serving(place, "--log-level", "error") as daemon:
        daemon.stop()

    assert daemon.seen == ""


def test_two_daemons_on_one_folder_are_one_too_many(place: Place) -> None:
    with serving(place) as daemon:
        second = place.run("serve")
        alike = place.run("serve", "--runtime-dir", str(place.folder / "other"))
        other = place.run("fire", "stop")

    assert (second.returncode, second.stdout) == (69, "")
    assert second.stderr == (
        f"hooklatch: another hooklatch daemon (pid {daemon.pid}) already uses {place.runtime}; "
        "stop it, or give this one another --runtime-dir\n"
    )
    assert alike.returncode == 69
    assert "XDG_STATE_HOME" in alike.stderr
    assert other.returncode == 0


def test_a_folder_that_others_can_open_is_refused_with_the_remedy(place: Place) -> None:
    place.runtime.mkdir()
    place.runtime.chmod(0o755)

    done = place.run("serve")

    assert done.returncode == 69
    assert f"chmod 700 {place.runtime}" in done.stderr


def test_a_folder_name_too_long_for_a_socket_is_refused(place: Place) -> None:
    done = place.run("serve", "--runtime-dir", str(place.folder / ("x" * 100)))

    assert done.returncode == 69
    assert "choose a shorter --runtime-dir" in done.stderr


def test_after_a_kill_the_next_daemon_clears_up_and_no_process_is_left(place: Place) -> None:
    with serving(place) as daemon, daemon.ending():
        daemon.signal(signal.SIGKILL)
        daemon.process.wait(PATIENCE)
    stale = sorted(path.name for path in place.runtime.glob("*.sock"))
    unreachable = place.run("status")

    with serving(place):
        assert place.run("status").returncode == 0

    assert stale == ["admin.sock", "agent.sock"]
    assert unreachable.returncode == 69
    assert "Connection refused" in unreachable.stderr


def test_a_hangup_takes_nothing_away_that_has_vanished_or_was_emptied(place: Place) -> None:
    hook = 'from hooklatch import hook\n@hook("stop")\ndef {}(event): ...\n'
    extra, more = (place.config.parent / f"hooks.d/{name}.py" for name in ("extra", "more"))
    place.write({f"hooks.d/{name}.py": hook.format(name) for name in ("extra", "more")})
    with serving(place) as daemon:
        before = [hook["id"] for hook in place.json("hooks")["hooks"]]
        place.config.rename(place.folder / "away")
        extra.unlink()
        more.write_text("")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for("pool ended")  # of guards.py: only what somebody asks for builds a source that is the same
        denied, status = place.fire_tool("Bash", command="rm"), place.json("status", code=1)
        after = [hook["id"] for hook in place.json("hooks")["hooks"]]
        place.config.touch()
        removed = place.run("hooks", "remove", "extra")
        left = [hook["id"] for hook in place.json("hooks")["hooks"]]
        (place.folder / "away").rename(place.config)

    assert before == after == ["guards:judge", "extra", "more"]
    assert denied.returncode == 2
    named = [one["file"] for one in status["problems"] if "--accept-removed" in one["message"]]
    assert sorted(named) == sorted([str(place.config), str(extra)])
    assert removed.stdout.startswith(f"removed extra; {extra} is gone (revision ")
    assert left == ["guards:judge", "more"]


def test_a_gate_that_runs_is_answered_before_the_end_and_new_ones_are_denied(place: Place) -> None:
    pause = Pause(place.folder)
    with serving(place) as daemon:
        running = pause.begin_fire(place)
        with daemon.ending():
            daemon.signal(signal.SIGTERM)
            daemon.wait_for("draining")
            late = place.json("fire", "pre_tool_use", "--payload", "-", stdin=payload("Read"), code=4)
            pause.end()
            answered = running.end()
            ended = daemon.end()

    assert (late["cause"], late["retryable"]) == ("draining", True)
    assert answered[0] == 2
    assert "answered after all" in answered[1]
    assert ended[0] == 0


def test_a_second_signal_ends_the_wait(place: Place) -> None:
    pause = Pause(place.folder)
    with serving(place) as daemon:
        running = pause.begin_fire(place)
        with daemon.ending():
            daemon.signal(signal.SIGTERM)
            daemon.wait_for("draining")
            daemon.signal(signal.SIGTERM)
            ended = daemon.end()
        code, out, _ = running.end()

    assert ended[0] == 0
    assert "stopping without waiting further" in ended[2]
    assert code == 4
    assert "no_daemon" in out or "abandoned" in out


def test_a_client_that_is_interrupted_leaves_quietly(place: Place) -> None:
    pause = Pause(place.folder)
    with serving(place) as daemon:
        running = pause.begin_fire(place)
        running.signal(signal.SIGINT)
        code, out, err = running.end()
        daemon.wait_for("abandoned event=pre_tool_use")

    assert (code, out, err) == (130, "", "")


def test_ctrl_c_ends_the_daemon_without_a_traceback(place: Place) -> None:
    with serving(place) as daemon, daemon.ending():
        daemon.signal(signal.SIGINT)
        code, out, err = daemon.end()

    assert (code, out) == (0, "")
    assert "Traceback" not in err


def test_a_broken_configuration_starts_red_and_gates_deny_with_the_line() -> None:
    with new_place({"hooks.toml": "[[hook]]\nid = 'a'\nthis is no toml\n"}) as place, serving(place):
        status = place.run("status")
        decision = place.json("fire", "pre_tool_use", "--payload", "-", stdin=payload("Read"), code=4)
        notified = place.run("fire", "stop")

    assert status.returncode == 1
    assert status.stdout.startswith(f"health      red\nwrong       {place.config}:3: not TOML")
    assert decision["cause"] == "load"
    assert f"{place.config}:3: " in decision["reason"]
    assert "hooklatch hooks disable" in decision["reason"]
    assert notified.returncode == 0


def closed_output(place: Place) -> Started:
    command = " ".join(["exec", *PROGRAM, "serve", "<&-", ">&-"])
    process = subprocess.Popen(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, env=place.environment)
    return Started(process)


def broken_output(place: Place) -> Started:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [*PROGRAM, "serve"], stdout=writer, stderr=subprocess.PIPE, text=True, env=place.environment
    )
    os.close(writer)
    return Started(process)


@pytest.mark.parametrize("start", [closed_output, broken_output])
def test_a_standard_output_that_nobody_reads_does_not_end_it(place: Place, start: object) -> None:
    assert callable(start)
    daemon: Started = start(place)
    daemon.wait_for("hooklatch.serve: ready")

    denied = place.fire_tool("Bash", command="rm x")
    daemon.signal(signal.SIGTERM)
    code, _, err = daemon.end()

    assert denied.returncode == 2
    assert code == 0
    assert "Traceback" not in err


def test_the_socket_folder_may_be_relative(place: Place) -> None:
    with serving(place, "--runtime-dir", "here", "--config", "config/hooks.toml") as daemon:
        assert daemon.ready["agent"] == f"{place.folder}/here/agent.sock"
        assert Path(place.json("status", "--runtime-dir", "here")["places"]["config"]) == place.config
        daemon.stop()


@pytest.mark.parametrize(
    ("words", "named", "said"),
    [
        (("--config", "missing/hooks.toml"), None, "missing/hooks.toml does not exist"),
        ((), "missing.toml", "missing.toml does not exist"),
        (("--config", "nowhere.toml"), None, "nowhere.toml is a link that leads nowhere"),
        ((), "circle.toml", "Too many levels of symbolic links"),
        (("--config", "config/hooks.toml/hooks.toml"), None, "Not a directory"),
    ],
)
def test_a_file_of_hooks_that_was_named_and_is_not_there_is_no_daemon(
    place: Place, words: tuple[str, ...], named: str | None, said: str
) -> None:
    (place.folder / "nowhere.toml").symlink_to("gone")
    (place.folder / "circle.toml").symlink_to("circle.toml")

    done = place.run("serve", *words, **({"HOOKLATCH_CONFIG": str(place.folder / named)} if named else {}))

    assert (done.returncode, done.stdout) == (66, "")
    assert said in done.stderr
    assert ("hooklatch init --config" in done.stderr) is ("does not exist" in said)
    assert "Traceback" not in done.stderr
    assert not (place.runtime / "agent.sock").exists()


def test_without_any_configuration_it_starts_and_is_green(place: Place) -> None:
    del place.environment["HOOKLATCH_CONFIG"]

    with serving(place) as daemon:
        assert place.run("status").returncode == 0
        assert place.fire_tool("Bash", command="rm x").returncode == 0
        daemon.stop()


WITH_A_BROKEN_PART = """
import sys
from hooklatch.cli import main
from hooklatch.processes.zygote import ForkError
from hooklatch.processes.zygote import ZygoteClient
from hooklatch.service.transport.server import Listener

async def fail(part, **_):
    raise error("it is broken")

if __name__ == "__main__":  # the zygote imports this again
    part, error = {"Listener": (Listener, ValueError), "ZygoteClient": (ZygoteClient, ForkError)}[sys.argv.pop(1)]
    part.run = fail
    sys.exit(main())
"""


def run_with_a_broken(part: str, place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    program = place.folder / "broken.py"
    program.write_text(WITH_A_BROKEN_PART)
    return subprocess.run(
        [sys.executable, str(program), part, "serve", *words], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=PATIENCE, check=False, cwd=place.folder, env=place.environment,
    )  # fmt: skip


def test_a_part_that_the_daemon_cannot_go_on_without_ends_it_with_a_line_and_a_traceback_in_the_log(
    place: Place,
) -> None:
    done = run_with_a_broken("Listener", place)

    assert done.returncode == 70
    last = done.stderr.splitlines()[-1]
    assert last.startswith("hooklatch: the daemon cannot go on without its part 'agent listener', which has failed: ")
    assert last.endswith("ValueError: it is broken; the log has the traceback")
    assert "hooklatch.supervisor: part failed: agent listener" in done.stderr
    assert "Traceback" in done.stderr
    assert "ExceptionGroup" not in done.stderr
    after = place.run("status")
    assert after.returncode == 69
    assert "the last one failed at " in after.stderr
    assert "it is broken; start one with" in after.stderr


def test_a_part_that_cannot_be_started_is_one_line(place: Place) -> None:
    done = run_with_a_broken("ZygoteClient", place)

    assert done.returncode == 69
    assert done.stderr.splitlines()[-1] == "hooklatch: the zygote did not start: it is broken"
    assert "Traceback" not in done.stderr

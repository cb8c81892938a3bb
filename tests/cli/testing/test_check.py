"""hooklatch check: what a daemon would complain of, without one.

Slow: each check loads sources in workers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.commands import Place, drop_progress, new_place, serving
from support.fleets import fleet_table
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow

GOOD = 'from hooklatch import hook\n\n@hook("stop")\ndef noted(event): ...\n'
TYPO = 'from hooklatch import hook\n\n@hook("stop", matc="x")\ndef noted(event): ...\n'
FILES = {"hooks.toml": '[[source]]\npath = "good.py"\n', "good.py": GOOD}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with nobody_survives(), new_place(FILES) as place:
        yield place


def test_a_good_configuration_is_told_with_what_it_holds(place: Place) -> None:
    done = place.run("check")

    assert (done.returncode, drop_progress(done.stderr)) == (0, "")
    assert done.stdout == f"{place.config}: 1 hook, 1 source, no problem\n"


def test_files_are_loaded_and_their_faults_told_with_their_lines(place: Place) -> None:
    place.write({"typo.py": TYPO, "empty.py": "x = 1\n", "capital.py": GOOD.replace("import hook", "import Deny")})
    folder = place.config.parent

    done = place.run("check", *(str(folder / name) for name in ("typo.py", "empty.py", "capital.py", "")))
    report = json.loads(place.run("check", str(folder / "typo.py"), "--json").stdout)

    assert done.returncode == 1
    assert f"{folder}/typo.py:3: TypeError: @hook has no option 'matc'; did you mean 'match'?" in done.stdout
    assert "; a guard begins with: from hooklatch import hook, deny, ask, allow" in done.stdout
    assert f"{folder}/empty.py: it marks no function with @hook, so it guards nothing" in done.stdout
    assert f"{place.config}: 1 hook, 1 source, no problem" in done.stdout
    assert (report["ok"], report["checked"][0]["diagnostics"][0]["line"]) == (False, 3)


def test_a_file_of_hooks_d_is_checked_with_its_configuration(place: Place) -> None:
    with new_place(FILES) as other:
        other.write({"hooks.d/more.toml": "[[hook]]\nidd = 1\n"})
        done = other.run("check", str(other.config.parent / "hooks.d" / "more.toml"))

    assert done.returncode == 1
    assert "hooks.d/more.toml:2: a hook has no key 'idd'; did you mean 'id'?" in done.stdout
    assert "1 problem" in done.stdout


def test_the_metrics_of_the_daemon_in_charge_are_left_alone() -> None:
    with new_place(FILES) as other:
        published = other.folder / "metrics.prom"
        published.write_text("the daemon's\n")
        other.write({"hooks.toml": f'[daemon]\nmetrics_file = "{published}"\n{FILES["hooks.toml"]}'})

        done = [other.run("check"), other.run("dev", str(other.config), "--once")]

        assert [one.returncode for one in done] == [0, 0], done
        assert published.read_text() == "the daemon's\n"


def test_a_password_of_a_fleet_that_goes_unencrypted_is_a_note() -> None:
    keys = 'keys = ["ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]\npassword_file = "p"'
    fleet = f'{FILES["hooks.toml"]}\n[fleet]\nname = "acme"\nurl = "redis://engine.example"\nhost = "h1"\n{keys}\n'
    with new_place({**FILES, "hooks.toml": fleet}) as other:
        done = other.run("check")
        with serving(other):
            status = other.json("status", code=1)

    assert "the password for the engine goes to engine.example unencrypted" in done.stdout
    warned = [found for found in status["warned"] if found["reason"] == "fleet"]
    assert warned[0]["what"].startswith("no link is connected, so nothing comes from the fleet")
    assert "engine.example unencrypted" in warned[1]["what"]
    assert warned[1]["do"].startswith("start the link; or use rediss://, as examples/fleet has it")


def test_what_nothing_reads_is_a_finding_and_a_tool_that_nobody_has_a_note() -> None:
    with new_place(FILES) as other:
        other.write({"good.py": GOOD.replace('"stop"', '"pre_tool_use", match="bash"')})
        small = other.run("check")
        other.write({"good.py": GOOD.replace('"stop"', '"pre_tool_use", match="shells"')})
        noted = other.run("check")
        report = json.loads(other.run("check", "--json").stdout)
        other.write({"hooks.d/notes.txt": "x"})
        unread = other.run("check")
        (other.config.parent / "hooks.d" / "notes.txt").rename(other.config.parent / "hooks.d" / "guard.sh")
        tried = other.run("test", "-", stdin='{"event": "stop", "expect": "pass"}')

    assert noted.returncode == small.returncode == 0
    assert "'bash' is not 'Bash', as other agents call it; write 'shell' for the tools of all" in small.stdout
    assert "good.py:3: hook 'good:noted': no tool that is known is called 'shells'" in noted.stdout
    assert (report["ok"], [one["line"] for one in report["checked"][0]["notes"]]) == (True, [3])
    assert (unread.returncode, "hooks.d/notes.txt: nothing reads it" in unread.stdout) == (1, True)
    assert (tried.returncode, "hooks.d/guard.sh: it is a program that nothing runs" in tried.stderr) == (1, True)


HASTY = """
import sys
from hooklatch.cli import main
from hooklatch.cli.testing import check
check.LOAD_SECONDS = 2.0
sys.argv = ["hooklatch", "check"]
sys.exit(main())
"""


def test_modules_that_hang_are_named_and_the_check_ends() -> None:
    hangs = "import threading\nthreading.Event().wait()\n"
    with new_place(FILES) as other:
        other.write({f"hooks.d/hangs_{number}.py": hangs for number in range(5)})
        done = subprocess.run(
            [sys.executable, "-c", HASTY], capture_output=True, text=True, check=False, env=other.environment
        )

    assert done.returncode == 1, done.stderr
    for number in range(5):
        assert f"hooks.d/hangs_{number}.py: it did not finish importing within 2 s" in done.stdout


def test_what_is_not_there_is_said(place: Place) -> None:
    with new_place({**FILES, "hooks.d/a.toml": ""}) as other:  # a misspelt name beside a folder that is there
        for name in ("gone.toml", "config/hook.toml"):
            done = other.run("check", name)

            assert (done.returncode, done.stdout) == (66, "")
            assert f"{name}: there is no file of hooks" in done.stderr


def test_what_cannot_be_read_is_a_finding_and_is_named_once() -> None:
    with new_place(FILES) as other:
        other.config.unlink()
        other.config.symlink_to(other.config)
        done = other.run("check")

    assert done.returncode == 1
    message = "cannot be accessed: Too many levels of symbolic links; fix it, or remove it"
    assert done.stdout.splitlines()[0] == f"{other.config} {message}"


def test_a_host_that_is_to_deny_needs_a_timer_which_is_said(place: Place) -> None:
    table = fleet_table()
    place.write({"hooks.toml": table})
    serves = place.run("check")
    place.write({"hooks.toml": table + 'when_stale = "deny"\n'})
    denies = place.run("check")

    assert "timer" not in serves.stdout
    assert "run from a timer: hooklatch fleet timestamp" in denies.stdout

"""action.yml: its shell lines, run here as a runner does, on policies that pass and that fail.

Slow: they install hooklatch from this tree, without the network, and start workers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.repository import ROOT
from support.survivors import COOKIE, nobody_survives

pytestmark = pytest.mark.slow

GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no_rm(event):
    if "rm " in event.tool_input["command"]:
        return deny("name the files")
"""
CASE = """
[[case]]
name = "a removal is refused"
event = "pre_tool_use"
payload = { tool_name = "Bash", tool_input = { command = "rm x" } }
expect = "%s"
"""
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())


class Runner:
    """A folder with a repository, and what a runner gives to the steps of an action."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.path, self.summary = folder / "checkout", folder / "path", folder / "summary"
        self.checkout.mkdir()
        self.path.write_text("")
        (folder / "temp").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_PATH": str(self.path), "GITHUB_STEP_SUMMARY": str(self.summary),
            # No network: what hooklatch needs is that of this environment.
            "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0",
            "PYTHONPATH": sysconfig.get_path("purelib"),
        }  # fmt: skip

    def write(self, guard: str, cases: str | None = None) -> None:
        """Write the repository's policy."""
        folder = self.checkout / ".hooklatch"
        (folder / "hooks.d").mkdir(parents=True, exist_ok=True)
        (folder / "hooks.d/guards.py").write_text(guard)
        if cases is not None:
            (folder / "policy-tests.toml").write_text(cases)

    def run(self, number: int, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub does: `bash --noprofile --norc -eo pipefail`, with the paths that steps before added."""
        step = ACTION["runs"]["steps"][number]
        given = {name: str(table["default"]) for name, table in ACTION["inputs"].items()} | inputs
        values = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: given[found[1]], text)
            for name, text in step["env"].items()
        }
        path = os.pathsep.join([*reversed(self.path.read_text().split()), self.environment["PATH"]])
        with nobody_survives() as cookie:
            return subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=self.checkout, check=False,
                capture_output=True, text=True, env={**self.environment, **values, "PATH": path, COOKIE: cookie},
            )  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the first step; return what it adds to the path."""
    runner = Runner(tmp_path_factory.mktemp("action"))
    done = runner.run(0)
    assert done.returncode == 0, done.stdout + done.stderr
    return runner.path.read_text()


@pytest.fixture
def runner(tmp_path: Path, installed: str) -> Runner:
    runner = Runner(tmp_path)
    runner.path.write_text(installed)
    return runner


def test_the_first_step_installs_a_command_of_this_version(installed: str) -> None:
    program = Path(installed.strip()) / "hooklatch"

    assert program.is_file()
    assert str(sys.prefix) not in installed


@pytest.mark.parametrize("word", ["deny", "pass"])
def test_a_policy_passes_with_its_cases_and_fails_with_a_case(runner: Runner, word: str) -> None:
    runner.write(GUARD, CASE % word)
    done = runner.run(1)
    summary = runner.summary.read_text()

    assert done.returncode == (0 if word == "deny" else 1), done.stdout + done.stderr
    assert "### hooklatch check: passed\n" in summary
    assert f"### hooklatch test: {'passed' if word == 'deny' else 'FAILED'}\n" in summary
    assert "1 case, " in done.stdout
    assert all(line.startswith(("### ", "    ")) for line in summary.splitlines() if line)


@pytest.mark.parametrize("word", ["deny", "pass"])
def test_the_cases_of_guards_are_run_where_guards_are_added_with_them(runner: Runner, word: str) -> None:
    runner.write(GUARD)
    cases = runner.checkout / ".hooklatch/hooks.d/policy-tests/guards.jsonl"
    cases.parent.mkdir()
    cases.write_text(json.dumps(tomllib.loads(CASE % word)["case"][0]) + "\n")
    done = runner.run(1)

    assert done.returncode == (0 if word == "deny" else 1), done.stdout + done.stderr
    said = f"### hooklatch guards test: {'passed' if word == 'deny' else 'FAILED'}\n"
    assert said in runner.summary.read_text()
    assert "no cases" not in runner.summary.read_text()


def test_a_policy_that_does_not_load_fails_and_one_without_cases_says_so(runner: Runner) -> None:
    runner.write(GUARD)
    good, summary = runner.run(1), runner.summary.read_text()
    runner.write("import nothing_of_that_name\n")
    bad = runner.run(1)
    missing = runner.run(1, policy="$(touch pwned)")

    assert good.returncode == 0, good.stderr
    assert "neither policy-tests.toml nor hooks.d/policy-tests" in good.stdout
    assert "### hooklatch test: no cases\n" in summary
    assert bad.returncode == 1
    assert "nothing_of_that_name" in runner.summary.read_text()
    assert missing.returncode != 0
    assert not (runner.checkout / "pwned").exists()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("hooks.toml", "../hooks.toml"), ("hooks.toml", "gone.toml"), ("policy-tests.toml", "../cases.toml"),
        ("hooks.d/more.py", "../../more.py"), ("hooks.d/more", "../../.hooklatch-more"), ("hooks.d/loop", "loop"),
    ],
)  # fmt: skip
def test_a_link_that_leads_out_of_the_folder_or_nowhere_fails(runner: Runner, name: str, target: str) -> None:
    runner.write(GUARD, CASE % "deny")
    link = runner.checkout / ".hooklatch" / name
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    (runner.checkout / ".hooklatch-more").mkdir()
    for outside in ("hooks.toml", "cases.toml", "more.py"):
        (runner.checkout / outside).write_text("broken [")
    done = runner.run(1)
    summary = runner.summary.read_text()

    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{str(link)!r} is a link to {target!r}\n" in summary
    assert "### links in the folder: FAILED\n" in summary
    assert "hooklatch check" not in summary
    assert not list((runner.summary.parent / "temp").glob("*.toml"))  # which `touch` would make through a link


def test_a_link_in_the_folder_is_followed_and_an_unreadable_case_fails(runner: Runner) -> None:
    runner.write(GUARD, CASE % "deny")
    folder = runner.checkout / ".hooklatch"
    (folder / "policy-tests.toml").rename(folder / "cases")
    (folder / "policy-tests.toml").symlink_to("cases")
    good, summary = runner.run(1), runner.summary.read_text()
    (folder / "hooks").write_text("broken [")
    (folder / "hooks.toml").symlink_to("hooks")
    bad = runner.run(1)

    assert good.returncode == 0, good.stdout + good.stderr
    assert "1 case, 1 passed" in summary
    assert bad.returncode == 1
    assert "### hooklatch check: FAILED\n" in runner.summary.read_text()

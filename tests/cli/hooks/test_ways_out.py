"""What a text offers works, and ends the state that it was offered for: each line is run as it was printed.

Slow: each state needs a daemon of its own.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from support.commands import Place, new_place, payload, serving

pytestmark = pytest.mark.slow

GUARD = 'from hooklatch import deny, hook\n\n@hook("pre_tool_use", match="shell")\ndef guard(event):\n    {}\n'
FIRE = ("fire", "pre_tool_use", "--payload", payload("Bash", command="ls"))


def take_offer(place: Place, text: str, verb: str) -> None:
    """Run the command that a text offers."""
    offered = re.search(rf"hooklatch {verb}(?: [^\s;,)]+)*", text)
    assert offered is not None, text
    done = place.run(*shlex.split(offered[0])[1:])
    assert done.returncode == 0, f"{offered[0]}: {done.stderr}"


def report(place: Place, code: int = 1) -> tuple[str, str]:
    """Return what `status` says is wrong, and what it warns of."""
    status: dict[str, Any] = place.json("status", code=code)
    return (
        "\n".join(f"{one['what']}; {one['do']}" for one in status["wrong"]),
        "\n".join(one["what"] for one in status["warned"]),
    )


HALF = {
    "half.py": GUARD.format("return deny(").rstrip(),
    "quoted.py": GUARD.format('"""It refuses\n    what'),
    "half.toml": "[[hook]]\nid = ",
    "half.json": '{"hooks": {"PreToolUse": [{"matcher": "Bash',
    "early.json": '{"hooks": {"PreToolUse": [',
}


@pytest.mark.parametrize("text", ["import nothing_that_is_there\n", GUARD.format("return (").rstrip()])
def test_a_broken_file_that_is_disabled_is_yellow(text: str) -> None:
    with new_place({"hooks.d/broken.py": text}) as place, serving(place):
        assert "broken.py" in report(place)[0]
        take_offer(place, place.run(*FIRE).stdout, "hooks disable")

        wrong, warned = report(place, code=0)
        assert wrong == ""
        assert "global/broken.py: disabled, and broken: " in warned
        assert place.run(*FIRE).returncode == 0


def test_a_broken_file_that_was_saved_just_now_looks_half_written() -> None:
    with new_place({f"hooks.d/{name}": text for name, text in HALF.items()}) as place, serving(place):
        wrong = report(place)[0].splitlines()
        gated = place.run(*FIRE).returncode

    assert gated == 4
    for name in HALF:
        assert any(f"/{name}:" in line and "; it looks half-written: finish it, or" in line for line in wrong), name


def test_a_file_in_the_other_language_is_called_what_it_is() -> None:
    files = {"a.toml": '{"hooks": {"PreToolUse": [', "b.json": '# ours\n\n[[hook]]\nid = "x"\n'}
    with new_place({f"hooks.d/{name}": text for name, text in files.items()}) as place, serving(place):
        wrong = report(place)[0]

    assert "a.toml:1: it is JSON, and a .toml file is read as TOML: write it as TOML, or" in wrong
    assert "b.json:1: it is TOML, and a .json file is read as JSON: rename it .toml" in wrong
    assert "half-written" not in wrong


def test_a_suspension_ends() -> None:
    with new_place({"hooks.d/guard.py": GUARD.format('return deny("no")')}) as place, serving(place):
        assert place.run("suspend", "guard", "--reason", "a test").returncode == 0
        take_offer(place, report(place)[0], "resume")

        assert report(place, code=0)[0] == ""
        assert place.run(*FIRE).returncode == 2


def test_a_loss_is_accepted() -> None:
    with new_place({"hooks.d/guard.py": GUARD.format("return None")}) as place, serving(place):
        (place.config.parent / "hooks.d" / "guard.py").unlink()
        place.run("reload")
        wrong: list[dict[str, Any]] = place.json("status", code=1)["wrong"]
        assert len([one for one in wrong if one["reason"] == "files"]) == 1
        take_offer(place, wrong[0]["do"], "reload --accept-removed")

        assert report(place, code=0)[0] == ""


def test_a_quarantine_is_lifted() -> None:
    with new_place({"hooks.d/guard.py": GUARD.format("import os; os._exit(1)")}) as place, serving(place):
        while '"quarantined"' not in place.run(*FIRE, "--json").stdout:
            continue
        assert "is quarantined" in report(place)[0]
        take_offer(place, report(place)[0], "hooks enable")

        left = report(place)[0]  # it is called again, and is red for its failures until it is mended
        assert re.fullmatch(
            r"global/guard failed in each of its last \d+ calls, [^\n]*: hooklatch hooks show \S+", left
        )
        (place.config.parent / "hooks.d" / "guard.py").write_text(GUARD.format("return None"))
        assert place.run("reload").returncode == 0
        assert place.run(*FIRE).returncode == 0
        assert report(place, code=0)[0] == ""


def test_a_project_is_trusted(tmp_path: Path) -> None:
    (tmp_path / ".hooklatch").mkdir()
    (tmp_path / ".hooklatch" / "hooks.toml").touch()
    with new_place({}) as place, serving(place):
        take_offer(place, place.run("try", "ls", "--cwd", str(tmp_path)).stderr, "trust")

        assert place.run("try", "ls", "--cwd", str(tmp_path)).stderr == ""

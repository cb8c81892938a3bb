"""OpenCode's plugin in a real JavaScript runtime: only a plain pass in time is one, everything else throws.

Slow: each trial starts a runtime, which starts an entry.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from hooklatch.cli.hosts.plugin import TrialError, make_plugin, rewrite_commands, try_plugin
from support.tables import table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("node") and not shutil.which("bun"), reason="neither node nor bun is here"),
]


def entry(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def trial(words: list[str], folder: Path, *, limit: float = 30) -> tuple[bool, str]:
    return try_plugin(make_plugin({"tool.execute.before": words}, limit), {}, str(folder))


def test_a_pass_is_one(tmp_path: Path) -> None:
    assert trial(entry("""print('{"verdict": "pass"}')"""), tmp_path) == (False, "")


@table(
    ("code", "text"),
    [
        ("""print('{"verdict": "deny", "reason": "no rm"}')""", "no rm"),
        ("""print('{"verdict": "allow"}')""", "the answer is not a pass"),
        ("print('null')", "the answer is not a pass"),
        ("pass", "the answer is not a pass"),
        ("""print('x'); print('{"verdict": "pass"}')""", "the answer is not a pass"),
        ("""print('{"verdict": "pass"}'); raise SystemExit(1)""", "exit code 1"),
        ("import sys; sys.stderr.write('why'); sys.exit(2)", "why"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("print('x' * (65 * 2**20))", "too long"),
    ],
)
def test_anything_else_throws(code: str, text: str, tmp_path: Path) -> None:
    is_refused, said = trial(entry(code), tmp_path)

    assert is_refused
    assert text in said


def test_an_entry_that_is_gone_throws(tmp_path: Path) -> None:
    is_refused, said = trial([str(tmp_path / "gone")], tmp_path)

    assert is_refused
    assert "the entry cannot be started" in said


def test_an_entry_that_hangs_throws_and_is_gone(tmp_path: Path) -> None:
    fifo = tmp_path / "never"
    note = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    code = f"import os; os.mkfifo({str(fifo)!r}); {note}; open({str(fifo)!r})"

    is_refused, said = trial(entry(code), tmp_path, limit=2)

    assert is_refused
    assert "no answer within 2 s" in said
    pid = (tmp_path / "pid").read_text()
    assert not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text()


def test_the_document_says_what_is_called(tmp_path: Path) -> None:
    keep = f"import sys, shutil; shutil.copyfileobj(sys.stdin, open({str(tmp_path / 'said')!r}, 'w'))"

    trial(entry(keep), tmp_path)

    said = (tmp_path / "said").read_text()
    assert '"event":"tool.execute.before"' in said
    assert '"tool":"bash"' in said
    assert '"args":{"command":"true"}' in said


def test_the_commands_of_a_plugin_can_be_read_and_changed() -> None:
    text = make_plugin({"a": ["x", "--runtime-dir", "/r"], "b": ["y"]}, 5)

    changed = rewrite_commands(text, lambda words: [*words, "more"])

    assert '"more"' in changed
    assert rewrite_commands(changed, lambda words: words[:-1]) == rewrite_commands(text, lambda words: words)
    with pytest.raises(TrialError, match="does not have the commands"):
        rewrite_commands("// nothing", lambda words: words)

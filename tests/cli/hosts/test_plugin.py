"""OpenCode's plugin in a real JavaScript runtime: only a plain pass in time is one, everything else throws.

Slow: each trial starts a runtime, which starts an entry.
"""

from __future__ import annotations

import json
import shutil
import subprocess
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


REFUSED_TWICE = """\
const [, , plugin, sessions] = process.argv
const did = []
const tui = { showToast: async ({ body }) => { did.push(["toast", body.message]) } }
let left
const session = { prompt: async (note) => { did.push(["note", note]); left() } }
const hooks = await (await import(plugin)).Hooklatch({ client: { tui, session }, directory: "/", worktree: "/" })
const message = { agent: "plan", model: { providerID: "p", modelID: "m" } }
for (const sessionID of JSON.parse(sessions))
  await hooks["chat.message"]({ sessionID }, { message, parts: [{ type: "text", text: "go" }] })
for (const command of ["rm\\n\\u001b[2J x", "y".repeat(300)])
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s" }, { args: { command } }).catch(() => {})
const noted = new Promise((resolve) => { left = resolve })
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
if (JSON.parse(sessions).includes("s")) await noted
await hooks.event({ event: { type: "session.idle", properties: { sessionID: "s" } } })
process.stdout.write(JSON.stringify(did))
"""


def refuse_twice(words: list[str], sessions: list[str], folder: Path) -> list[list[object]]:
    (folder / "plugin.mjs").write_text(make_plugin({"tool.execute.before": words}, 30))
    (folder / "play.mjs").write_text(REFUSED_TWICE)
    argv = [shutil.which("node") or "bun", str(folder / "play.mjs"), str(folder / "plugin.mjs"), json.dumps(sessions)]
    did: list[list[object]] = json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout)
    return did


def test_what_was_refused_stays_in_the_session_for_its_person_alone(tmp_path: Path) -> None:
    did = refuse_twice(entry("""print('{"verdict": "deny", "reason": "no", "person": "not here"}')"""), ["s"], tmp_path)

    text = f"Not run: bash rm [2J x\nnot here\nNot run: bash {'y' * 194}…\nnot here"
    note = {"agent": "plan", "model": {"providerID": "p", "modelID": "m"}, "noReply": True}
    body = {**note, "parts": [{"type": "text", "text": text, "ignored": True}]}
    assert did == [["toast", "not here"], ["toast", "not here"], ["note", {"path": {"id": "s"}, "body": body}]]


def test_a_person_hears_that_an_entry_is_gone(tmp_path: Path) -> None:
    did = refuse_twice([str(tmp_path / "gone")], ["s"], tmp_path)

    assert [what for what, _ in did] == ["toast", "toast", "note"]
    assert str(did[0][1]).startswith("hooklatch refused this call: it could not judge it: the entry cannot be started")
    assert str(did[0][1]).endswith("Run: hooklatch doctor")


def test_nothing_is_written_where_the_agent_of_a_session_is_not_known(tmp_path: Path) -> None:
    assert [what for what, _ in refuse_twice(entry("pass"), ["other"], tmp_path)] == ["toast", "toast"]


def test_the_commands_of_a_plugin_can_be_read_and_changed() -> None:
    text = make_plugin({"a": ["x", "--runtime-dir", "/r"], "b": ["y"]}, 5)

    changed = rewrite_commands(text, lambda words: [*words, "more"])

    assert '"more"' in changed
    assert rewrite_commands(changed, lambda words: words[:-1]) == rewrite_commands(text, lambda words: words)
    with pytest.raises(TrialError, match="does not have the commands"):
        rewrite_commands("// nothing", lambda words: words)

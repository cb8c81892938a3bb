"""Guards of the gallery where they remember, start programs, send or cannot load: in real workers.

Slow: each test runs a daemon.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hooklatch.guards.catalogue import read_guard_source
from support.daemons import running_daemon

pytestmark = pytest.mark.slow
RUFF = Path(sys.executable).parent / "ruff"


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    """Run what takes OTLP over HTTP, and note what it took."""
    taken: list[bytes] = []

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Taking)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/logs", taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def lines(*answers: tuple[str, int]) -> str:
    return "".join(
        json.dumps({"message": {"id": name, "model": "x-opus", "usage": {"output_tokens": count}}}) + "\n"
        for name, count in answers
    )


async def test_a_transcript_is_counted_once_and_a_broken_one_denies(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text('{"type": "user", "message": {"content": "hi"}}\n' + lines(("m1", 400_000), ("m1", 400_000)))
    payload = {"tool_name": "Read", "tool_input": {"file_path": "a"}, "transcript_path": str(transcript)}
    envelope = {"session_id": "s", "host": "claude-code"}
    decisions: list[dict[str, Any]] = []

    async with running_daemon(tmp_path, {"hooks.d/ceilings.py": read_guard_source("ceilings")}) as daemon:
        for added in ("", lines(("m1", 400_000)), '{"half', '": 1}\n', lines(("m2", 700_000)), "no JSON\n"):
            with transcript.open("a") as file:
                file.write(added)
            client = daemon.connect()
            decisions.append(await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope))
            await client.aclose()

    assert [one["verdict"] for one in decisions] == ["pass", "pass", "pass", "pass", "deny", "deny"]
    assert decisions[4]["reason"].startswith(
        "the ceiling of 25.00 dollars for a session is reached"
    )  # 1.1 million at 25 dollars
    assert "cannot be read" in decisions[5]["reason"]


async def test_a_transcript_that_was_written_anew_is_counted_from_its_beginning(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    payload = {"tool_name": "Read", "tool_input": {"file_path": "a"}, "transcript_path": str(transcript)}
    envelope = {"session_id": "s", "host": "claude-code"}
    verdicts: list[str] = []

    async with running_daemon(tmp_path, {"hooks.d/ceilings.py": read_guard_source("ceilings")}) as daemon:
        for text in (lines(("m1", 400_000), ("m1", 400_000)), lines(("m2", 700_000)), lines(("m2", 700_000))):
            transcript.write_text(text)
            client = daemon.connect()
            decision = await client.call("fire", event="pre_tool_use", payload=payload, envelope=envelope)
            verdicts.append(decision["verdict"])
            await client.aclose()

    assert verdicts == ["pass", "deny", "deny"]


async def test_a_guard_whose_detectors_are_missing_denies_and_says_what_to_install(tmp_path: Path) -> None:
    text = read_guard_source("secrets").replace("detect_secrets.plugins", "detect_secrets_that_is_not_there.plugins")

    async with running_daemon(tmp_path, {"hooks.d/secrets.py": text}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash", command="ls")
        problems = [str(one) for one in daemon.parts.reloader.active.diagnostics]

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "pip install 'hooklatch[guards-secrets]'" in " ".join(problems)


@pytest.mark.skipif(not RUFF.exists(), reason="ruff is not installed")
async def test_a_formatter_changes_the_file_and_the_agent_is_told(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("x=1\n")
    (work / "broken.py").write_text("def (\n")
    files = {"hooks.d/format_after_edit.py": read_guard_source("format_after_edit").replace('"ruff"', repr(str(RUFF)))}

    async with running_daemon(tmp_path, files) as daemon, daemon.session(cwd=str(work)) as client:
        told = [
            await client.fire("post_tool_use", tool_name="Write", tool_input={"file_path": name}, tool_response={})
            for name in ("a.py", "a.py", "broken.py", "../outside.py")
        ]

    assert (work / "a.py").read_text() == "x = 1\n"
    assert [one["append"] is not None for one in told] == [True, False, False, False]
    assert "failed on broken.py" in " ".join(told[2]["warnings"])


async def test_the_audit_sends_who_did_what_and_no_contents(tmp_path: Path) -> None:
    with receiver() as (endpoint, taken):
        text = read_guard_source("audit_otel").replace("http://127.0.0.1:4318/v1/logs", endpoint)
        async with running_daemon(tmp_path, {"hooks.d/audit_otel.py": text}) as daemon, daemon.session() as client:
            decision = await client.fire(
                "post_tool_use", tool_name="Bash", tool_input={"command": "cat notes"}, tool_response="the contents"
            )

    assert [one["cause"] for one in decision["outcomes"]] == ["policy"]
    (sent,) = taken
    assert b"post_tool_use Bash" in sent
    assert b"contents" not in sent
    assert b"notes" not in sent


async def test_shell_text_is_read_at_the_strictest_level_and_its_crash_denies(tmp_path: Path) -> None:
    crash = 'import os\nfrom hooklatch.guards import commands\nfrom hooklatch import hook\n@hook("pre_tool_use")\n'
    files = {
        "hooks.toml": '[isolation]\nlevel = "strict"\nif_unavailable = "report"\n',
        "hooks.d/destructive_commands.py": read_guard_source("destructive_commands"),
        "hooks.d/zz.py": crash + 'def zz(event):\n    if event.tool_input["command"] == "true": os.abort()\n',
    }

    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        removal = await client.fire_tool("Bash", command="bash -c '/bin/rm -rf ~'")
        harmless = await client.fire_tool("Bash", command="ls")
        crashed = await client.fire_tool("Bash", command="true")

    assert (removal["verdict"], removal["hook"]) == ("deny", "destructive_commands")
    assert harmless["verdict"] == "pass"
    assert (crashed["verdict"], crashed["cause"]) == ("deny", "crash")

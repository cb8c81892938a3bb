"""What the dashboard's pages show and do, by plain requests to the real process beside a real daemon.

Slow: a daemon and a dashboard are processes of their own.
"""

from __future__ import annotations

import getpass
import html
import json
import re
import signal
import socket
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest

from hooklatch.errors import format_install_command
from support.commands import Place, payload
from support.dashboards import Visitor, dashboard, shown, until

pytestmark = pytest.mark.slow

DENIER = "/hook?name=global/guards:no_force_push"


def test_the_overview_says_how_it_is_and_what_was_decided_and_why(visitor: Visitor) -> None:
    text = shown(visitor, "/")

    assert "All is well" in text
    assert "force pushes are not allowed here" in text
    assert '- "command": "npm install left-pad"' in text
    assert '+ "command": "npm --ignore-scripts install left-pad"' in text
    assert "global/guards:formatter failed crash" in text
    assert "FileNotFoundError: no formatter is installed" in text


def test_what_hooks_and_agents_wrote_stays_text(visitor: Visitor) -> None:
    for path in ("/", "/record", DENIER):
        page = visitor.page(path).text

        assert "<script>alert" not in page
        assert "<img" not in page
        assert "<i>things" not in page
        assert "&lt;script&gt;alert" in page
        assert "\\u202egnp.exe\\u2066\\x00" in page or "\\u202e" in page
        assert not set(page) & set("\u202e\u2066\x00\x1b"), path
        assert len(page) < 100_000


def test_a_hook_is_shown_with_its_failures_and_its_source(visitor: Visitor, place: Place) -> None:
    source = place.config.parent / "guards.py"
    before = source.read_text()
    name = "/hook?name=global/guards:formatter"

    text = shown(visitor, name)
    source.write_text(before + "\n# not loaded by hand: a daemon loads it at once, so the digest is what counts\n")
    source.write_text(before)

    assert "no formatter is installed <b>here</b>" in text
    assert "Traceback (most recent call last)" in text
    assert 'raise FileNotFoundError("no formatter is installed' in text
    assert "This is what the daemon runs." in text
    assert visitor.page("/hook?name=nobody").status == 404


def test_the_record_is_filtered_and_verified(visitor: Visitor, place: Place) -> None:
    denied = shown(visitor, "/record?verdict=deny")
    wrong = shown(visitor, "/record?verdict=perhaps")
    recent = shown(visitor, "/record?since=1h&until=2126-01-01&kind=decision")
    never = shown(visitor, "/record?since=yesterday")
    assert visitor.post("/verify").status == 303
    while "being checked" in (checked := shown(visitor, "/record")):
        pass
    found = re.search(r'href="([^"]*/decision\?id=[^"]+)"', visitor.page("/record?verdict=deny").text)
    gentle = re.search(r'href="([^"]*/decision\?id=[^"]+)"', visitor.page("/record?text=gently").text)
    assert found is not None
    assert gentle is not None
    decision = shown(visitor, html.unescape(found[1]).removeprefix(visitor.base))

    assert "force pushes are not allowed" in denied
    assert "post_tool_use Write" not in denied
    assert "What the record has is not known" in wrong
    assert "What the record has is not known" in never
    assert "'yesterday' is not a time; write" in never
    assert "post_tool_use Write" in recent
    assert "Whole:" in checked
    assert "Instead: git push <b>gently</b>" in shown(visitor, html.unescape(gentle[1]).removeprefix(visitor.base))
    assert "What each hook said" in decision
    assert "The whole record" in decision


def test_other_pages_tell_what_there_is(visitor: Visitor) -> None:
    assert "No agent holds a session now" in shown(visitor, "/sessions")
    assert "Nothing is." in shown(visitor, "/suspensions")
    assert "Nothing waits for an answer" in shown(visitor, "/asks")
    revisions = visitor.page("/revisions").text
    number = re.findall(r'<option value="(\d+)"', revisions)[0]
    assert "They are the same." in shown(visitor, f"/revisions?from={number}&to={number}")
    assert "Added" in shown(visitor, "/revisions")
    assert visitor.page("/nothing").status == 404


def test_a_session_is_shown_with_the_hooks_that_it_sees(visitor: Visitor, place: Place) -> None:
    hello = {"protocol": 1, "session": {"id": "s-<1>", "cwd": str(place.folder), "host": "an agent\u202e"}}
    hello["session"]["hooks"] = [{"id": "mine", "event": "stop", "served": True}]  # type: ignore[index]
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(str(place.runtime / "agent.sock"))
        agent.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": hello}).encode() + b"\n")
        agent.recv(1)
        sessions = shown(visitor, "/sessions")
        seen = shown(visitor, "/hooks?session=s-%3C1%3E")
        own = shown(visitor, "/hook?name=mine")
    unknown = visitor.page("/hooks?session=nobody")

    assert "s-<1>" in sessions
    assert "an agent\\u202e" in sessions
    assert "mine" in seen
    assert "stop" in own
    assert "Suspend…" not in own  # it is that session's own
    assert "Which hooks there are is not known" in unknown.text


def test_what_is_done_is_asked_once_and_recorded_with_who_and_why(visitor: Visitor, place: Place) -> None:
    name = "global/guards:no_scripts"
    form = shown(visitor, f"/do/suspend?hook={name}")
    assert visitor.post("/do/suspend", hook=name, reason="", **{"for": "5m"}).status == 400
    assert visitor.post("/do/suspend", hook=name, reason="why", **{"for": "for ever"}).status == 400
    assert visitor.post("/do/suspend", hook=name, reason="why", **{"for": "48h"}).status == 409
    assert place.json("status")["suspended"] == []

    suspended = visitor.post("/do/suspend", hook=name, reason="it is <b>wrong</b>", **{"for": "5m"})
    page = shown(visitor, "/suspensions")
    again = shown(visitor, "/suspensions")
    for action, fields in {"resume": {"hook": name}, "disable": {"hook": name}, "enable": {"hook": name}}.items():
        assert visitor.post(f"/do/{action}", reason=f"to {action}", **fields).status == 303
    assert visitor.post("/do/reload", reason="once more").status == 303
    records = [json.loads(line) for line in place.run("log", "--kind", "operation", "--json").stdout.splitlines()]

    assert "what it guards is not guarded meanwhile" in form
    assert suspended.headers["location"] == f"{visitor.base}/suspensions"
    assert f"{name[:1].upper()}{name[1:]} is suspended." in page
    assert "is suspended." not in again
    assert "it is <b>wrong</b>" in page
    assert [(one["operation"], one["hook"], one["reason"]) for one in records] == [
        ("suspend", name, "it is <b>wrong</b>"),
        ("resume", name, "to resume"),
        ("disable", name, "to disable"),
        ("enable", name, "to enable"),
        ("reload", "*", "once more"),
    ]
    assert {one["by"] for one in records} == {f"{getpass.getuser()} in the dashboard"}


def test_an_ask_is_answered_with_a_reason_for_the_payload_that_was_shown(visitor: Visitor, place: Place) -> None:
    call = place.folder / "call.json"
    call.write_text(payload("Deploy", target="<b>production</b>"))
    fired = place.begin("fire", "pre_tool_use", "--payload", str(call), "--json")
    while not (found := re.search(r"/ask\?id=([^\"]+)", visitor.page("/asks").text)):
        pass
    path = f"/ask?id={found[1]}"
    page = visitor.page(path)
    fields = dict(re.findall(r'name="(id|digest)" value="([^"]*)"', page.text))

    other = visitor.post("/ask", {}, **{**fields, "digest": "0" * 64}, reason="why", verdict="allow")
    unexplained = visitor.post("/ask", {}, **fields, reason=" ", verdict="allow")
    neither = visitor.post("/ask", {}, **fields, reason="why", verdict="perhaps")
    done = visitor.post("/ask", {}, **fields, reason="the release is tested", verdict="allow")
    late = visitor.post("/ask", {}, **fields, reason="no", verdict="deny")
    code, out, _ = fired.end()

    assert "&lt;b&gt;production" in page.text
    assert "<dt>Folder</dt>" in page.text
    assert [one.status for one in (other, unexplained, neither, done, late)] == [409, 400, 400, 303, 409]
    assert json.loads(out)["verdict"] == "allow"
    assert code == 0
    closed = [json.loads(line) for line in place.run("log", "--kind", "ask", "--json").stdout.splitlines()][-1]
    assert closed["by"] == f"{getpass.getuser()} in the dashboard"
    assert closed["reason"] == "the release is tested"


def test_all_of_what_is_asked_about_is_shown_however_many_lines_it_has(visitor: Visitor, place: Place) -> None:
    call = place.folder / "long.json"
    tool_input = {"before": [0] * 5000, "target": "at the very end of g\u0456thub"}
    call.write_text(json.dumps({"tool_name": "Deploy", "tool_input": tool_input}))
    fired = place.begin("fire", "pre_tool_use", "--payload", str(call), "--json")
    while not (found := re.search(r"/ask\?id=([^\"]+)", visitor.page("/asks").text)):
        pass

    page = visitor.page(f"/ask?id={found[1]}").text
    fields = dict(re.findall(r'name="(id|digest)" value="([^"]*)"', page))
    visitor.post("/ask", {}, **fields, reason="no", verdict="deny")
    fired.end()

    assert "at the very end" in page
    assert "&#39;g\\u0456thub&#39; has letters that look like others." in page


def test_the_stream_tells_what_happens(visitor: Visitor, place: Place) -> None:
    connection = HTTPConnection(visitor.origin.removeprefix("http://"), timeout=60)
    connection.request("GET", f"{visitor.base}/live", headers={"Cookie": visitor.cookie})
    answer = connection.getresponse()
    seen = ""
    while "event: asks" not in seen:  # the first look at the daemon: it watches
        seen += answer.readline().decode()
    place.fire_tool("Bash", command="git push --force <u>now</u>")
    while "event: decisions" not in seen:
        seen += answer.readline().decode()
    while "data-id" not in (line := answer.readline().decode()):
        pass
    id_of = re.search(r'data-id="([^"]+)"', line)
    answer.close()
    connection.close()

    assert "text/event-stream" in (answer.getheader("content-type") or "")
    assert "All is well" in seen
    assert id_of is not None
    assert "Bash" in shown(visitor, f"/decision?id={quote(id_of[1])}")


def test_a_quarantine_is_shown_and_lifted(visitor: Visitor, place: Place) -> None:
    for _ in range(20):
        place.fire_tool("Die")
        status = json.loads(place.run("status", "--json").stdout)
        if status["quarantined"]:
            break
    name = "global/guards:dies"
    before = shown(visitor, "/"), shown(visitor, "/suspensions"), shown(visitor, f"/hook?name={name}")

    lifted = visitor.post("/do/lift", hook=name, reason="it is mended")
    after = shown(visitor, "/suspensions")

    assert status["quarantined"] == [name]
    assert "Needs attention" in before[0]
    assert f"{name} is quarantined: its worker died too often" in before[0]
    assert f"{name} Its worker died too often" in before[1]
    assert "Lift the quarantine" in before[2]
    assert lifted.status == 303
    assert f"{name[:1].upper()}{name[1:]} is not quarantined any more." in after
    assert "Its worker died too often" not in after


def test_no_descriptor_is_left_by_pages_and_streams(place: Place) -> None:
    with dashboard(place) as visitor:
        files = Path(f"/proc/{visitor.process.pid}/fd")
        visitor.enter()  # it serves, with all that it keeps open
        before = len(list(files.iterdir()))
        for _ in range(5):
            for path in ("/", "/hooks", "/record", "/hook?name=global/guards:formatter", "/static/style.css", "/no"):
                visitor.page(path)
            with closing(HTTPConnection(visitor.origin.removeprefix("http://"), timeout=60)) as connection:
                connection.request("GET", f"{visitor.base}/live", headers={"Cookie": visitor.cookie})
                with closing(connection.getresponse()) as answer:
                    answer.readline()

        until(lambda: len(list(files.iterdir())) <= before)


def test_the_browser_is_opened_by_a_file_that_others_cannot_read(place: Place) -> None:
    browser = place.folder / "browser"
    browser.write_text(
        f'#!/bin/sh\nstat -c %a "${{1#file://}}" >{browser}.mode\ncp "${{1#file://}}" {browser}.half\n'
        f"mv {browser}.half {browser}.page\n"
    )
    browser.chmod(0o700)
    place.environment |= {"DISPLAY": ":99", "BROWSER": f"{browser} %s"}
    try:
        process = place.begin("dashboard")
        url = process.line().split()[-1]
        until((place.folder / "browser.page").exists)
    finally:
        del place.environment["DISPLAY"], place.environment["BROWSER"]
    process.signal(signal.SIGINT)
    code, _, _ = process.end()

    assert (place.folder / "browser.mode").read_text() == "600\n"
    assert html.escape(url) in (place.folder / "browser.page").read_text()
    assert code == 0
    assert list((place.folder / ".local/state/hooklatch").glob("dashboard-*")) == []


def test_a_library_that_is_missing_is_named(place: Place) -> None:
    missing = place.folder / "without"
    missing.mkdir()
    (missing / "hypercorn.py").write_text("raise ModuleNotFoundError('No module', name='hypercorn')\n")

    done = place.run("dashboard", PYTHONPATH=str(missing))

    assert done.returncode == 69
    assert f"hypercorn is not installed; it comes with: {format_install_command('hooklatch[dashboard]')}" in done.stderr


def test_a_port_that_is_taken_is_said(visitor: Visitor, place: Place) -> None:
    port = visitor.origin.rpartition(":")[2]

    done = place.run("dashboard", "--port", port)

    assert done.returncode == 69
    assert f"port {port} cannot be listened on: Address already in use" in done.stderr

"""ui: textual's own pilot presses its keys beside a real daemon and real fires; screens are compared as text.

Slow: each test has a daemon of its own, and each fire is a process.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from hooklatch import connect_sync

pytest.importorskip("textual", reason="textual is not installed: pip install 'hooklatch[ui]'")

from textual.pilot import Pilot

from hooklatch.cli.daemon.app import LiveApp
from hooklatch.cli.daemon.feed import fetch_top_report
from hooklatch.cli.terminal.requests import connect_administrator
from support.commands import CONFIG, PATIENCE, Place, new_place, payload, serving
from support.daemons import open_descriptors

pytestmark = pytest.mark.slow

GUARDS = """
from hooklatch import ask, deny, hook

@hook("pre_tool_use", match=["Bash", "Crash"])
def first(event):
    if event.tool_name == "Crash":
        raise ValueError("a bug of the guard [red]")

@hook("pre_tool_use", match=["Bash", "Ask"])
def second(event):
    if event.tool_name == "Ask":
        return ask("may it?")
    if "rm" in event.tool_input["command"]:
        return deny("no rm here")
"""
HOSTILE = "rm -rf [bold]/[/bold] \x1b[31m" + "雪" * 60


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place whose variables this process has too, in the zone of the screens below."""
    with new_place({"hooks.toml": f'[ask]\nwait = "5m"\n{CONFIG}', "guards.py": GUARDS}) as place:
        place.environment["TZ"] = "UTC"
        place.enter(monkeypatch)
        time.tzset()
        yield place
    monkeypatch.undo()
    time.tzset()


class Screen:
    """The person's side of the program."""

    def __init__(self, app: LiveApp, pilot: Pilot[Any]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        return [strip.text.rstrip() for strip in strips]

    @property
    def text(self) -> str:
        """Return what is to be seen, but for times, figures and ids, which differ."""
        text = "\n".join(self.lines).rstrip()
        for pattern, word in (
            (r"\d\d:\d\d:\d\d UTC", "HH:MM:SS UTC"), (r"\d{4}-\d\d-\d\d", "DATE"), (r"[\d.]+ fires/s", "N fires/s"),
            (r"up .*", "up N"), (r"\|[ =]+\|", "|==|"), (r"from [\d.]+, [\d.]+ ms", "from N, N ms"),
            (r"\b[0-9a-f]{8}-\d+\b", "ID"), (r"\b[\d.]+$", "N"), (r"/[\w/-]*/hl-\w+", "/tmp/hl"),
        ):  # fmt: skip
            text = re.sub(pattern, word, text, flags=re.MULTILINE)
        return text

    async def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, f"not seen; the screen is:\n{self.text}"
            await self.pilot.pause()

    async def until_seen(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text for text in texts))

    async def press(self, keys: str, *texts: str) -> None:
        await self.pilot.press(*keys.split())
        await self.until_seen(*texts)

    async def type(self, text: str) -> None:
        await self.pilot.press(*("space" if letter == " " else letter for letter in text))


@asynccontextmanager
async def opened(place: Place, width: int = 80, height: int = 24, view: str = "decisions") -> AsyncIterator[Screen]:
    """Run the program; no child, descriptor or thread of it is left."""
    before = {*open_descriptors()}
    arguments = argparse.Namespace(
        runtime_dir=str(place.runtime), daemon_uid=None, session=None, interval=0.1, json=False, no_bell=False
    )
    with connect_administrator(arguments) as link:
        first = fetch_top_report(link, None)
    app = LiveApp(arguments, first, view, "state")
    async with app.run_test(size=(width, height)) as pilot:
        screen = Screen(app, pilot)
        yield screen
    app.feed.join(PATIENCE)
    assert not app.feed.is_alive()
    assert {*open_descriptors()} <= before
    assert not [child for child in psutil.Process().children() if "textual" in child.name()]


def beside_a_daemon(test: Callable[[Place], Coroutine[Any, Any, None]]) -> Callable[[Place], None]:
    @functools.wraps(test)
    def run(place: Place) -> None:
        with serving(place):
            asyncio.run(test(place))

    return run


def fire(place: Place, tool: str, **tool_input: str) -> str:
    """Fire a tool call, and return the id of its decision."""
    done = place.fire_tool(tool, "--json", **tool_input)
    return str(json.loads(done.stdout)["decision_id"])


def lay_out(top: str, bottom: str, height: int) -> str:
    lines = top.strip("\n").splitlines()
    return "\n".join([*lines, *[""] * (height - 1 - len(lines)), bottom])


HEADER = "hooklatch  green  HH:MM:SS UTC  N fires/s  2 hooks  0 sessions  up N"
KEYS = "enter calls  / filter  s suspend  t case  a d answer  2 hooks  ? help  q quit"
SMALL = f"""
{HEADER}
[1 decisions]  2 hooks
 TIME           VERDICT  WHAT                              GUARD
 HH:MM:SS UTC   pass     Bash ls                           -
 HH:MM:SS UTC   deny     Bash rm -rf [bold]/[/bold] \\x1b…  guards:second
 HH:MM:SS UTC   deny     Crash {{"command":""}}              guards:first (crash)
"""
LARGE = f"""
{HEADER}
[1 decisions]  2 hooks
 TIME           VERDICT  WHAT{" " * 73}GUARD{" " * 37}REASON{" " * 44}MS
 HH:MM:SS UTC   pass     Bash ls{" " * 70}-{" " * 91}N
 HH:MM:SS UTC   deny     Bash rm -rf [bold]/[/bold] \\x1b[31m{"雪" * 19}…   guards:second{" " * 29}no rm here{" " * 40}N
 HH:MM:SS UTC   deny     Crash {{"command":""}}{" " * 57}guards:first (crash){" " * 22}\
hook crashed (fail-safe deny): global/guards:fi…  N
"""
CALLS = """
{"command":""}
deny  by global/guards:first (crash)
  hook crashed (fail-safe deny): global/guards:first: ValueError: a bug of the
  guard [red] (guards.py:7)
pre_tool_use  Crash  DATE HH:MM:SS UTC

|==|  global/guards:first  failed (crash)  from N, N ms
    ValueError: a bug of the guard [red] (guards.py:7)
    Traceback (most recent call last):
      File "/tmp/hl/config/guards.py", line 7, in first
        raise ValueError("a bug of the guard [red]")
    ValueError: a bug of the guard [red]

all of it: hooklatch log --decision ID
"""
SNOW = f"""
rm -rf [bold]/[/bold] \\x1b[31m{"雪" * 25}
{"雪" * 35}
deny  by global/guards:second
  no rm here
pre_tool_use  Bash  DATE HH:MM:SS UTC

|==|  global/guards:first  no verdict  from N, N ms
|==|  global/guards:second  deny  from N, N ms

all of it: hooklatch log --decision ID
"""
PAGE_KEYS = "up, down scroll  enter back  q quit"


@beside_a_daemon
async def test_decisions_come_in_as_they_are_made_at_80x24(place: Place) -> None:
    async with opened(place) as screen:
        await screen.until_seen("no decision is on record")
        for tool, command in (("Bash", "ls"), ("Bash", HOSTILE), ("Crash", "")):
            await asyncio.to_thread(fire, place, tool, command=command)
        await screen.until_seen("deny     Crash")

        assert screen.text == lay_out(SMALL, KEYS, 24)


@beside_a_daemon
async def test_those_on_record_are_there_at_once_with_their_reasons_at_200x60(place: Place) -> None:
    for tool, command in (("Bash", "ls"), ("Bash", HOSTILE), ("Crash", "")):
        fire(place, tool, command=command)
    async with opened(place, 200, 60) as screen:
        await screen.until_seen("deny     Crash")

        assert screen.text == lay_out(LARGE, KEYS, 60)


@beside_a_daemon
async def test_enter_shows_the_calls_of_a_decision_and_the_traceback_of_a_failure(place: Place) -> None:
    for tool, command in (("Bash", HOSTILE), ("Crash", "")):
        fire(place, tool, command=command)
    async with opened(place) as screen:
        await screen.until_seen("deny     Crash")
        await screen.press("enter", "Traceback", "raise ValueError")
        assert screen.text == lay_out(CALLS, PAGE_KEYS, 24)

        await screen.press("escape up up enter", "no verdict")
        assert screen.text == lay_out(SNOW, PAGE_KEYS, 24)


@beside_a_daemon
async def test_the_filter_shows_the_rows_that_have_a_text(place: Place) -> None:
    for command in ("ls", "rm x", "ls /srv"):
        fire(place, "Bash", command=command)
    async with opened(place) as screen:
        await screen.until_seen("Bash ls /srv")
        await screen.press("slash L S enter", "filter: LS")
        assert ("Bash ls" in screen.text, "rm x" in screen.text) == (True, False)

        await asyncio.to_thread(fire, place, "Bash", command="ls again")
        await screen.until_seen("ls again")
        await screen.press("slash backspace backspace x x x", "nothing matches the filter")
        await screen.press("escape", "rm x", "ls again")

        assert "filter:" not in screen.text


def test_a_guard_is_suspended_for_a_time_and_with_a_reason(place: Place) -> None:
    async def use() -> None:
        fire(place, "Bash", command="rm x")
        async with opened(place) as screen:
            await screen.until_seen("rm x")
            await screen.press("s", "suspend global/guards:second", "reason:", "for:", "10m")
            await screen.press("enter", "it needs a reason")
            await screen.type("a wrong guard")
            await screen.press("tab end backspace backspace backspace enter", "is not a")
            await screen.type("90s")
            await screen.press("enter", "suspended global/guards:second, for 90 s more: a wrong guard")
            await screen.until_seen("hooklatch  red", "wrong    global/guards:second is suspended")

    with serving(place):
        asyncio.run(use())
        (suspension,) = place.json("status", code=1)["suspended"]

    assert (suspension["hook"], suspension["reason"]) == ("global/guards:second", "a wrong guard")


@beside_a_daemon
async def test_an_ask_is_read_and_answered(place: Place) -> None:
    command = "git push " + " ".join(f"[b]{number}[/b]" for number in range(420))  # more than a decision tells
    (place.folder / "payload.json").write_text(payload("Ask", command=command))
    fired = place.begin("fire", "pre_tool_use", "--payload", "payload.json", "--json")
    async with opened(place) as screen:
        await screen.until_seen("ASKS     Ask git push", "1 ask open")
        await asyncio.to_thread(fire, place, "Bash", command="ls")
        await screen.press("a", "allow, because:", "more below")
        await screen.type("it is mine")
        await screen.press("enter", "read all of it first")
        await screen.press(
            "pagedown pagedown pagedown pagedown enter", "allowed by", ": it is mine", "allow    Ask git push"
        )
        code, out, _ = await asyncio.to_thread(fired.end)

        assert (code, json.loads(out)["verdict"]) == (0, "allow")
        assert "ask open" not in screen.text
        await screen.press("d", "this is not an ask that waits")


def test_a_decision_becomes_a_case_that_holds(place: Place) -> None:
    async def use() -> None:
        fire(place, "Bash", command="rm x")
        async with opened(place) as screen:
            await screen.until_seen("rm x")
            await screen.press("t", "file:", "case-")
            await screen.press("ctrl+u")
            await screen.type(name)
            await screen.press("enter", f"wrote 1 case to {name}; run them: hooklatch\ntest {name}\n")
            await screen.press("t ctrl+u")
            await screen.type(name)
            await screen.press("enter", f"{name} exists and is not overwritten")
            await screen.press("question_mark", "page up, page down, home and end too; escape:\n" + " " * 18 + "none")

    name = "new-cases-with-a-name-of-some-length.jsonl"
    with serving(place):
        asyncio.run(use())
    done = place.run("test", name)

    assert done.returncode == 0, done.stdout + done.stderr


@beside_a_daemon
async def test_hooks_are_a_view_of_it_with_their_failures(place: Place) -> None:
    fire(place, "Crash", command="")
    async with opened(place, 100, 30, "hooks") as screen:
        await screen.press("o o o o", "FAILURESv", "crash 1")
        await screen.press("r", "FAILURES^")
        await screen.press("r end home", ">guards:first")
        await screen.press("enter", "declared", "Traceback", "a bug of the guard [red]")
        await screen.press("escape 1", "VERDICT", "Crash")
        await screen.press("tab", "CALLS/S")
        await screen.press("p", "HELD")
        await asyncio.to_thread(fire, place, "Crash", command="")
        assert "crash 2" not in screen.text
        await screen.press("p", "crash 2")


@beside_a_daemon
async def test_a_terminal_that_is_too_small_has_one_line_until_it_is_larger(place: Place) -> None:
    async with opened(place) as screen:
        await screen.press("s", "select a decision first")
        for width, height in ((59, 24), (80, 14)):
            await screen.pilot.resize_terminal(width, height)
            await screen.until_seen(f"this terminal has {width}x{height}; it needs 60x15")
            assert "\n" not in screen.text
        await screen.pilot.resize_terminal(1, 1)
        await screen.pilot.resize_terminal(60, 15)
        await screen.until_seen("[1 decisions]", "no decision is on record")


def test_decisions_that_were_made_while_the_daemon_was_away_are_there_when_it_is_back(place: Place) -> None:
    async def use() -> None:
        with serving(place) as daemon:
            fire(place, "Bash", command="ls 1")
            running = opened(place)
            screen = await running.__aenter__()
            await screen.until_seen("ls 1")
            daemon.stop()
        await screen.until_seen("hooklatch  gone", "no daemon: ", "below is what was known last", "ls 1")
        with serving(place):
            fire(place, "Bash", command="ls 2")
            await screen.until_seen("hooklatch  green", "ls 1", "ls 2", "a daemon answers again")
            await asyncio.to_thread(fire, place, "Bash", command="ls 3")
            await screen.until_seen("ls 3")
            await running.__aexit__(None, None, None)

    asyncio.run(use())


def test_a_screen_that_is_too_slow_says_how_many_decisions_it_left_out(place: Place) -> None:
    fires = 400

    async def use() -> None:
        async with opened(place) as screen:
            await screen.until_seen("no decision is on record")
            with connect_sync(f"{place.runtime}/agent.sock") as session:
                for number in range(fires):  # in this task, so nothing is drawn meanwhile, as at a stopped terminal
                    session.fire("pre_tool_use", tool_name="Bash", tool_input={"command": f"rm {number}"})
                await screen.until(lambda: "decisions left out (hooklatch log has" in screen.text)
            shown, left_out = re.search(r"of (\d+)  (\d+) decisions left out", screen.text).groups()  # type: ignore[union-attr]

            assert int(shown) + int(left_out) == fires

    place.write({"guards.py": GUARDS.replace('"no rm here"', '"no rm here " * 400')})
    with serving(place):
        asyncio.run(use())

"""Whose guards apply: those of the project in which an agent began, and of the one in which it is."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hooklatch.entry.commands import make_entry_command
from hooklatch.service.registry.places import (
    SessionStarts,
    dash_path,
    find_nearest_folders,
    find_place,
    find_similar_folders,
)
from support.daemons import Daemon, child_of, running_daemon
from support.ground import Ground, refused
from support.tables import table

BROKEN = "$loop"

# -- paths -------------------------------------------------------------------------------------------------------


@table(
    ("folder", "found"),
    [
        ("/p", {"/p"}),
        ("/p/a/b", {"/p"}),
        ("/p/inner/x", {"/p/inner"}),
        ("/pp", set()),
        ("/p/../q", set()),
        ("/p/gone/../a", {"/p"}),
        ("/", set()),
        ("//p/a", {"/p"}),
    ],
)
def test_a_folder_is_in_the_nearest_project_at_or_above_it(folder: str, found: set[str]) -> None:
    assert find_nearest_folders([find_place(folder)], {"/p", "/p/inner"}) == found


@pytest.mark.parametrize("folder", ["p", "", ".", "/p/\0", "/" + "x" * 300])
def test_a_folder_that_cannot_be_looked_up_is_a_fault_and_no_place_without_a_project(folder: str) -> None:
    assert find_place(folder).fault is not None


def test_a_folder_counts_as_it_is_named_and_as_it_is_without_links(tmp_path: Path) -> None:
    real, named = tmp_path / "real", tmp_path / "named"
    (real / "below").mkdir(parents=True)
    named.mkdir()
    (named / "link").symlink_to(real)
    (named / "dangling").symlink_to(real / "gone")
    (named / "loop").symlink_to(named / "loop")
    folders = {str(real), str(named)}

    assert find_nearest_folders([find_place(str(named / "link" / "below"))], folders) == folders
    assert find_nearest_folders([find_place(str(named / "dangling" / "x"))], folders) == folders
    assert find_nearest_folders([find_place(str(named / "link" / "gone" / ".." / "below"))], folders) == folders
    assert (looped := find_place(str(named / "loop" / "x"))).fault is not None
    assert find_nearest_folders([looped], folders) == {str(named)}  # what is known of it still counts


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        ("-home-me-a-b", True),
        ("-home-me-a-b-below", True),
        ("-home-me-a-bc", False),
        ("-home-me-a", False),
        ("", False),
    ],
)
def test_a_name_of_letters_and_digits_stands_for_each_folder_that_it_may_be_of(name: str, is_found: bool) -> None:
    folders = {"/home/me/a.b", "/home/me-a/b", "/home/me/a_b"}

    assert find_similar_folders(name, folders) == (folders if is_found else set())


def test_a_long_name_is_compared_as_far_as_it_was_written() -> None:
    long = "/" + "a" * 250

    assert find_similar_folders(dash_path(long)[:200] + "-x1y2z3", [long]) == {long}
    assert dash_path("/a é\U0001f600") == "-a----"


def test_of_so_many_host_sessions_the_beginning_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.registry.places.MAX_SESSIONS", 2)
    began, first, later = SessionStarts(), (find_place("/a"),), (find_place("/b"),)
    for name in ("1", "2"):
        began.note(name, first)
        began.note(name, later)
    began.note("nowhere", (*first, find_place("relative")))
    began.get("1")

    began.note("3", later)

    assert [began.get(name) for name in ("1", "2", "3", "nowhere")] == [first, (), later, ()]


# -- the daemon --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def ground(folder: Path) -> AsyncGenerator[Ground]:
    async with running_daemon(folder) as daemon:
        ground = Ground(daemon, folder)
        (folder / "none").mkdir()
        (folder / "loop").symlink_to(folder / "loop")
        (folder / "to-a").symlink_to(folder / "a" / "sub")
        await ground.trust("a", "A")
        await ground.trust("b", "B")
        await ground.trust("a/inner", "I")
        (folder / "a" / "sub" / ".hooklatch").mkdir()  # as an agent could make one
        (folder / "a" / "sub" / ".hooklatch" / "hooks.toml").write_text("")
        yield ground


async def test_a_session_has_the_guards_of_where_it_began_and_of_where_it_is(tmp_path: Path) -> None:
    async with ground(tmp_path) as here:
        for began, moves, expected in (
            ("$a", [], "A"),
            ("$a/sub", [], "A"),
            ("$a/sub/deeper/gone", [], "A"),
            ("$to-a", [], "A"),
            ("$a/inner/sub", [], "I"),  # the nearest one
            ("$none", [], ""),
            ("$a", ["$none"], "A"),
            ("$a/sub", ["$b/sub"], "AB"),
            ("$a/sub", ["$b", "$none"], "A"),  # of where it began and where it is, not of all on the way
            ("$none", ["$a/sub"], "A"),
            ("$none", ["$a", "/"], ""),
            ("$a", ["$a/inner"], "AI"),
            (BROKEN, [], "load"),
            ("$a", [BROKEN], "load"),
            ("$a", ["relative"], "load"),
            ("$a", [BROKEN, "$none"], "A"),
        ):
            async with here.daemon.session(cwd=here.path(began)) as client:
                for move in moves:
                    await client.call("session.update", cwd=here.path(move))

                assert (began, moves, await refused(client)) == (began, moves, expected)


async def test_a_place_that_can_be_told_again_is_looked_up_again(tmp_path: Path) -> None:
    async with (
        ground(tmp_path) as here,
        here.daemon.session(cwd=here.path(BROKEN)) as client,
        here.daemon.session(**child_of(client)) as child,
    ):
        before = await refused(client), await refused(child)
        (tmp_path / "loop").unlink()
        (tmp_path / "loop").symlink_to(tmp_path / "b")

        assert (before, await refused(client), await refused(child)) == (("load", "load"), "B", "B")


async def test_trust_given_and_taken_reaches_sessions_below(tmp_path: Path) -> None:
    async with (
        ground(tmp_path) as here,
        here.daemon.session(cwd=here.path("$a/inner/sub")) as client,
        here.daemon.administrator() as admin,
    ):
        await admin.call("untrust", folder=here.path("$a/inner"))
        after_untrust = await refused(client)
        await admin.call("trust", folder=here.path("$a/inner"))

        assert (after_untrust, await refused(client)) == ("A", "I")


async def test_a_one_shot_has_the_guards_of_all_that_it_says_of_its_place(tmp_path: Path) -> None:
    async with ground(tmp_path) as here, here.daemon.session(id="guarded", cwd=here.path("$a")):
        name_of_a = dash_path(here.path("$a"))
        for said, expected in (
            ({}, ""),
            ({"cwd": "$a/sub"}, "A"),
            ({"cwd": "$none"}, ""),
            ({"cwd": "$none", "began_in": "$a/sub"}, "A"),
            ({"cwd": "$b", "began_in": "$a"}, "AB"),
            ({"cwd": "$b", "began_as": name_of_a}, "AB"),
            ({"cwd": "$none", "began_as": f"{name_of_a}-sub"}, "A"),
            ({"cwd": "$none", "began_in": "$none", "began_as": name_of_a}, "A"),  # one of the two is wrong
            ({"began_in": "$a-x", "began_as": f"{name_of_a}-x"}, ""),  # the whole path tells which it is
            ({"began_in": "$a-x", "began_as": name_of_a}, "A"),
            ({"cwd": BROKEN}, "load"),
            ({"cwd": "a"}, "load"),
            ({"cwd": ""}, "load"),
            ({"cwd": "$a", "began_in": BROKEN}, "load"),
            ({"cwd": "$none", "parent_session_id": "guarded"}, ""),
        ):
            assert (said, await here.one_shot(**said)) == (said, expected)


async def test_a_one_shot_keeps_the_guards_of_where_its_host_session_first_fired(tmp_path: Path) -> None:
    async with ground(tmp_path) as here:
        first = await here.one_shot(session_id="h1", cwd="$a/sub")
        elsewhere = await here.one_shot(session_id="h1", cwd="$b")
        without = await here.one_shot(session_id="h1")
        another = await here.one_shot(session_id="h2", cwd="$b")

    assert (first, elsewhere, without, another) == ("A", "AB", "A", "B")


async def test_where_a_host_session_began_is_remembered_before_anything_is_trusted(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        here = Ground(daemon, tmp_path)
        (tmp_path / "a").mkdir()
        before = await here.one_shot(session_id="h1", cwd="$a")
        await here.trust("a", "A")

        assert (before, await here.one_shot(session_id="h1", cwd="/")) == ("", "A")


async def test_without_a_trusted_project_no_place_is_a_reason_to_refuse(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session(cwd="relative") as client:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")

        assert await refused(client, cwd=f"{tmp_path}/loop") == ""


async def test_a_fire_of_a_session_adds_the_guards_of_the_place_that_it_names(tmp_path: Path) -> None:
    async with ground(tmp_path) as here, here.daemon.session(cwd=here.path("$a")) as client:
        assert await refused(client, cwd=here.path("$b/sub")) == "AB"
        assert await refused(client, cwd=here.path(BROKEN)) == "load"
        assert await refused(client, cwd="/") == "A"


async def test_claude_codes_entry_is_held_to_where_it_began(tmp_path: Path) -> None:
    async with ground(tmp_path) as here:
        transcript = f"/home/dev/.claude/projects/{dash_path(here.path('$a'))}/s.jsonl"
        for event, project, expected in (
            ({"cwd": "$a/sub"}, "", "A"),
            ({"cwd": "$none"}, "", ""),
            ({"cwd": "$none"}, "$a", "A"),
            ({"cwd": "$none", "transcript_path": transcript}, "", "A"),
            ({"cwd": "$b", "session_id": "claude"}, "$a", "AB"),
            ({"cwd": "$b", "session_id": "claude"}, "", "AB"),  # it is remembered
        ):
            document = {key: here.path(value) for key, value in event.items()}

            answers = "".join([await ask_as_claude(here.daemon, tool, document, here.path(project)) for tool in "ABI"])

            assert (event, project, answers) == (event, project, expected)


async def ask_as_claude(daemon: Daemon, tool: str, event: dict[str, str], project: str) -> str:
    document = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": {}, **event}
    folder = os.path.dirname(daemon.agent)
    command = make_entry_command("claude-code", "PreToolUse", "gate", 60, runtime_dir=folder)
    environment = {"HOME": "/none"} | ({"CLAUDE_PROJECT_DIR": project} if project else {})
    done = await trio.run_process(command, stdin=json.dumps(document).encode(), capture_stdout=True, env=environment)
    return tool if b'"deny"' in done.stdout else ""

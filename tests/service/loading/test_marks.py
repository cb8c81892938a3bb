"""A function marked with @hook is a hook, or an error that names it: no gate is missing in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from support.daemons import Daemon, running_daemon

pytestmark = pytest.mark.slow  # each starts a daemon: 0.5 s; many files are tried on one

SOURCE = '[[source]]\npath = "{}"\n'
MARK = '@hook("pre_tool_use")\n'
GUARD = MARK + 'def guard(event):\n    return deny("guarded")\n'
HEAD = "from hooklatch import chain, deny, hook\nimport functools\n\n"
BARE = "def bare(function):\n    def inner(event):\n        return function(event)\n    return inner\n\n"
WRAPS = BARE.replace("    def inner", "    @functools.wraps(function)\n    def inner").replace("bare", "wraps")
FACTORY = (
    "from hooklatch import deny, hook\n\ndef make(reason):\n    " + MARK + "    def made(event):\n"
    "        return deny(reason)\n    return made\n"
)  # fmt: skip

LOST = {
    "a decorator without functools.wraps": (HEAD + BARE + "@bare\n" + GUARD, 10, "functools.wraps"),
    "a second function of the same name": (HEAD + GUARD + GUARD, 4, "a second function with that name (guards.py:7)"),
    "a second function that is not marked": (HEAD + GUARD + "def guard(event): ...\n", 4, "a second function"),
    "a name that is bound anew": (HEAD + GUARD + "guard = None\n", 4, "now bound to None"),
    "a name that was deleted": (HEAD + GUARD + "del guard\n", 4, "no name of the module"),
    "a staticmethod": (HEAD + "@staticmethod\n" + GUARD, 5, "made a staticmethod"),
    "a partial": (HEAD + GUARD + "guard = functools.partial(guard)\n", 4, "does not carry the mark"),
    "a function in a class": (
        HEAD + "class Guards:\n    " + GUARD.replace("\n", "\n    "), 5, "it is in the class Guards"),
    "a function in a list": (HEAD + "from factory import make\nGUARDS = [make('a')]\n", 5, "not in a list"),
    "a loop that binds one name": (
        HEAD + "from factory import make\nfor n in 'ab':\n    made = make(n)\n", 6, "with that name (factory.py:4)"),
    "one use of a shared decorator": (
        HEAD + 'gate = hook("pre_tool_use")\n@gate\ndef a(event): ...\n@gate\ndef b(event): ...\ndel a\n', 5, "'a'"),
    "a mark without its @": (HEAD + GUARD.replace("@", ""), 4, "write @hook(...) above a def"),
    "two lost ones": (HEAD + GUARD + "del guard\n" + GUARD + "del guard\n", 4, "(and 1 more)"),
}  # fmt: skip
FOUND = {
    "a plain function": HEAD + GUARD,
    "a decorator that uses functools.wraps": HEAD + WRAPS + "@wraps\n" + GUARD,
    "a decorator below the mark": HEAD + BARE + MARK + "@bare\ndef guard(event):\n    return deny('guarded')\n",
    "a composition": HEAD + 'guard = hook("pre_tool_use")(chain(lambda event: deny("guarded")))\n',
    "a factory of a sibling": HEAD + "from factory import make\nguard = make('guarded')\n",
    "a loop that binds a name for each": HEAD + "from factory import make\nfor n in 'ab': globals()[n] = make(n)\n",
    "a decorator for others": HEAD + GUARD + 'gate = hook("pre_tool_use")\n',
    "a cached function": HEAD + "@functools.cache\n" + GUARD,
}
HELPER = HEAD + GUARD
USES = HEAD + "import helper\n\n" + MARK + "def other(event): ...\n"


async def take(daemon: Daemon, **files: str) -> dict[str, Any]:
    """Have the daemon take new versions of files, explicitly; give its status."""
    for name, text in files.items():
        daemon.write(name.replace("_py", ".py").replace("_toml", ".toml"), text)
    async with daemon.administrator() as client:
        await client.call("reload")
        return await client.call("status")


async def decide(daemon: Daemon) -> dict[str, Any]:
    client = daemon.connect()
    try:
        return await client.fire_tool("Bash")
    finally:
        await client.aclose()


def problems(status: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(Path(one["file"]).name, one["line"], one["message"]) for one in status["problems"]]


async def test_a_mark_that_is_lost_is_an_error_and_one_that_is_kept_is_a_hook(tmp_path: Path) -> None:
    files = {"hooks.toml": SOURCE.format("guards.py"), "guards.py": HEAD + GUARD, "factory.py": FACTORY}
    async with running_daemon(tmp_path, files) as daemon:
        for name, text in FOUND.items():
            assert problems(await take(daemon, guards_py=text)) == [], name
            assert (await decide(daemon))["reason"] in ("guarded", "a"), name
        for name, (text, line, told) in LOST.items():
            found = problems(await take(daemon, guards_py=text))
            assert [(file, at) for file, at, _ in found] == [("guards.py", line)], (name, found)
            assert told in found[0][2], (name, found)
            assert "the last good version stays active" in found[0][2]
            assert (await decide(daemon))["verdict"] == "deny", name


async def test_a_source_whose_mark_is_lost_from_the_start_denies(tmp_path: Path) -> None:
    files = {"hooks.toml": SOURCE.format("guards.py"), "guards.py": LOST["a function in a class"][0]}
    async with running_daemon(tmp_path, files) as daemon:
        decision = await decide(daemon)

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "guards.py:5: 'guard' is marked with @hook but would never be called" in decision["reason"]


@pytest.mark.parametrize(
    ("config", "guards", "denied", "told"),
    [
        (SOURCE.format("guards.py"), HEAD + "from helper import guard\n", "load", "this file is not a source"),
        (SOURCE.format("guards.py"), USES, "load", "this file is not a source"),
        (SOURCE.format("guards.py") + SOURCE.format("helper.py"), HEAD + "from helper import guard\n", "policy", ""),
        (SOURCE.format("guards.py") + SOURCE.format("helper.py"), USES, "policy", ""),
    ],
)
async def test_a_mark_in_an_imported_file_needs_that_file_to_be_a_source(
    tmp_path: Path, config: str, guards: str, denied: str, told: str
) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": config, "guards.py": guards, "helper.py": HELPER}) as daemon:
        decision = await decide(daemon)
        async with daemon.administrator() as client:
            found = problems(await client.call("status"))
        if not told:  # and when it is one no more, while nothing else changes
            found = problems(await take(daemon, hooks_toml=SOURCE.format("guards.py")))

    assert (decision["verdict"], decision["cause"]) == ("deny", denied)
    assert [(file, line) for file, line, _ in found] == [("helper.py", 4)]
    assert "'guard' is marked with @hook" in found[0][2]
    assert told in found[0][2]


async def test_a_mark_in_a_file_that_is_only_named_by_run_is_told(tmp_path: Path) -> None:
    config = '[[hook]]\nid = "a"\nevent = "pre_tool_use"\nrun = "guards.py:plain"\n'
    text = HEAD + "def plain(event):\n    return deny('plain')\n\n" + GUARD
    async with running_daemon(tmp_path, {"hooks.toml": config, "guards.py": text}) as daemon:
        decision = await decide(daemon)
        async with daemon.administrator() as client:
            found = problems(await client.call("status"))
        named = problems(await take(daemon, hooks_toml=config.replace("plain", "guard")))

    assert decision["reason"] == "plain"
    assert [(file, line) for file, line, _ in found] == [("guards.py", 7)]
    assert "only named by run" in found[0][2]
    assert named == []


async def test_a_mark_that_comes_after_the_load_is_a_crash_that_says_so(tmp_path: Path) -> None:
    text = HEAD + MARK + "def guard(event):\n    @hook('stop')\n    def late(event): ...\n"
    async with running_daemon(tmp_path, {"hooks.toml": SOURCE.format("guards.py"), "guards.py": text}) as daemon:
        with trio.fail_after(10):
            decision = await decide(daemon)

    assert (decision["verdict"], decision["cause"]) == ("deny", "crash")
    assert "@hook on 'late' came after the source was loaded" in decision["reason"]
    assert "guards.py:6" in decision["reason"]

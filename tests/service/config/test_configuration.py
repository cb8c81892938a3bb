"""hooks.toml as it is written: what each mistake is called, and at which line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hooklatch.core.hooks.definitions import read_definition
from hooklatch.service.config.configuration import ConfigError, FileConfig, read_config
from hooklatch.service.loading.sources import find_definition_target
from hooklatch_worker.wire import Source
from support.daemons import running_daemon
from support.tables import table

PATH = "/h/hooks.toml"
HOOK = '[[hook]]\nid = "x"\nevent = "pre_tool_use"\nrun = "guards.py:no"\n'


def read(text: str | bytes) -> FileConfig:
    return read_config(PATH, text if isinstance(text, bytes) else text.encode())


def refused(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value).removeprefix(PATH)


def test_an_empty_file_declares_nothing() -> None:
    assert read("") == FileConfig(PATH)


def test_a_file_gives_its_sources_hooks_events_and_limits_with_their_lines() -> None:
    config = read(
        '[[source]]\npath = "guards.py"\nworkers = 2\n\n[[source]]\nmodule = "acme.guards"\n\n'
        + HOOK
        + '\n[workers]\nworkers = 8\nmemory_mib = 64\n\n[[event]]\nname = "deployed"\nmodel = "notify"\n'
    )

    assert [(s.source.kind, s.source.location, s.workers) for s in config.sources] == [
        ("file", "/h/guards.py", 2), ("module", "acme.guards", None),
    ]  # fmt: skip
    assert [(hook.id, hook.line) for hook in config.hooks] == [("x", 8)]
    assert config.limits is not None
    assert (config.limits.workers, config.limits.resident_bytes) == (8, 64 * 2**20)
    assert [event.name for event in config.events] == ["deployed"]


def test_a_byte_order_mark_is_passed_over() -> None:
    assert [hook.id for hook in read(b"\xef\xbb\xbf" + HOOK.encode()).hooks] == ["x"]


def test_windows_line_ends_are_read() -> None:
    assert [(hook.id, hook.line) for hook in read(("\n" + HOOK).replace("\n", "\r\n")).hooks] == [("x", 2)]


@table(
    ("text", "said"),
    [
        ("[[hook]\n", ":1: not TOML"),
        ("\n\nx = \n", ":3: not TOML"),
        ('{"hooks": {"PreToolUse": [', ":1: it is JSON, and a .toml file is read as TOML: write it as TOML, or"),
        ("x = " + "[" * 20_000 + "]" * 20_000, ": not TOML: it is nested too deep"),
        ("# ok\nx = '\xc4\xe3'\n".encode("latin-1"), ":2: not UTF-8"),
        ("# \u4f60\u597d\n".encode("gb18030"), ":1: not UTF-8 (invalid continuation byte); save the file as UTF-8"),
        (HOOK.encode("utf-16"), ":1: not UTF-8"),
        ("hooks = 1\n", ":1: the file has no key 'hooks'; did you mean 'hook'?"),
        ("\n[[sourec]]\n", ":2: the file has no key 'sourec'; did you mean 'source'?"),
        ('\n[hook]\nid = "x"\n', ":2: write [[hook]], with two brackets, for each hook"),
        ('[source]\npath = "x.py"\n', ":1: write [[source]], with two brackets"),
        ("[[workers]]\nworkers = 2\n", ":1: write [workers], with one bracket"),
        ("hook = [1]\n", ":1: a hook is a table, not 1"),
        ("source = [1]\n", ":1: a source is a table, not 1"),
        (HOOK + "mtach = 'Bash'\n", ":5: hook 'x': a hook has no key 'mtach'; did you mean 'match'?"),
        (HOOK + HOOK + "timeuot = 1\n", ":9: hook 'x': a hook has no key 'timeuot'; did you mean 'timeout'?"),
        (
            HOOK + "timeout = 5000\n",
            ":5: hook 'x': timeout is a number over 0 and at most 600 (seconds, not milliseconds)",
        ),
        (HOOK + "priority = '1'\n", ":5: hook 'x': priority is a whole number"),
        (HOOK + "enabled = 1\n", ":5: hook 'x': enabled is true or false"),
        (HOOK + "config = 1\n", ":5: hook 'x': config is a table"),
        (HOOK.replace("run", "rum"), ":4: hook 'x': a hook has no key 'rum'; did you mean 'run'?"),
        (HOOK.replace('"pre_tool_use"', "7"), ":3: hook 'x': event is a name"),
        (
            HOOK.replace('run = "guards.py:no"', "served = true"),
            ":4: hook 'x': served hooks are registered by a client",
        ),
        ('[[source]]\npth = "x.py"\n', ":2: a source has no key 'pth'; did you mean 'path'?"),
        ("[[source]]\n", ':1: a source needs path = "guards.py" or module'),
        ("[[source]]\npath = 7\n", ":2: path is a string, not 7"),
        ('[[source]]\npath = "x.py"\nmodule = "x"\n', ":1: a source needs path"),
        ('[[source]]\npath = "x.py"\nworkers = 1\n', ":3: workers is a whole number from 2 to 64"),
        ('[[source]]\npath = "x.py"\nworkers = true\n', ":3: workers is a whole number from 2 to 64"),
        (
            "[workers]\nworkers = 0\n",
            ":2: workers is a whole number from 2 to 64 (one is kept free of notifications), not 0",
        ),
        ("[workers]\nmemory_mb = 1\n", ":2: [workers] has no key 'memory_mb'; did you mean 'memory_mib'?"),
        ("[workers]\nage = 'x'\n", ":2: age is a number over 0 and at most 2147483648, not 'x'"),
        ("[[event]]\nmodel = 'gate'\n", ':1: this event has no name; write name = "deploy_requested"'),
        (
            "[[event]]\nname = 'a'\nmodle = 'gate'\n",
            ":3: event 'a': an event has no key 'modle'; did you mean 'model'?",
        ),
        ("[[event]]\nname = 'a'\nmodel = 'gate'\n", ":1: event 'a': a gate that cannot deny cannot fail closed"),
        ("[[event]]\nname = 'stop'\nmodel = 'notify'\n", ":1: event 'stop': there is an event of that name"),
    ],
)
def test_a_mistake_is_named_at_its_line(text: str | bytes, said: str) -> None:
    assert refused(text).startswith(said)


def test_a_bad_matcher_alone_leaves_the_file_readable() -> None:
    config = read(HOOK + "match = {regex = '('}\n" + HOOK.replace('"x"', '"y"'))

    assert [(hook.id, hook.problem is not None) for hook in config.hooks] == [("x", True), ("y", False)]


def target_of(run: str) -> tuple[Source, str]:
    (definition,) = read_definition({"event": "stop", "run": run})
    return find_definition_target(definition, "/h")


@pytest.mark.parametrize(
    ("run", "place"),
    [
        ("guards.py:no", ("file", "/h/guards.py", "no")),
        ("../guards.py:no", ("file", "/guards.py", "no")),
        ("/x/guards.py:no", ("file", "/x/guards.py", "no")),
        ("/x/a:b.py:no", ("file", "/x/a:b.py", "no")),
        ("acme.guards:no", ("module", "acme.guards", "no")),
    ],
)
def test_a_run_is_relative_to_the_folder_of_its_file(run: str, place: tuple[str, str, str]) -> None:
    source, function = target_of(run)

    assert (source.kind, source.location, function) == place


def test_a_run_may_be_in_the_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    assert target_of("~/guards.py:no")[0].location == "/home/me/guards.py"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b"# \xc4\xe3\n"),
        lambda path: path.write_text("x = " + "[" * 20_000),
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to("/dev/zero"),
    ],
    ids=["a folder", "GB18030", "too deep", "a loop of links", "a device"],
)
async def test_what_is_no_configuration_makes_gates_deny_and_the_daemon_answers(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(tmp_path / "hooks.toml")
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")
        status = await client.call("status")

    assert (decision["verdict"], decision["cause"], status["health"]) == ("deny", "load", "red")
    assert str(tmp_path / "hooks.toml") in decision["reason"]


async def test_a_daemon_without_any_configuration_passes_and_is_green(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")
        status = await client.call("status")

    assert (decision["verdict"], status["health"], status["problems"]) == ("pass", "green", [])


async def test_a_configuration_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/hooks.toml").write_text('[[source]]\nmodule = "no_such_package.guards"\n')
    (tmp_path / "hooks.toml").symlink_to("real/hooks.toml")
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert "no_such_package" in decision["reason"]


def write_oddly_named(folder: Path) -> None:
    folder.mkdir()
    Path(os.fsdecode(bytes(folder) + b"/\xc4\xe3.py")).touch()


async def test_a_file_whose_name_is_no_text_makes_gates_deny_and_is_shown(tmp_path: Path) -> None:
    write_oddly_named(tmp_path / "hooks.d")
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")
        status = await client.call("status")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert "its name is not UTF-8; rename it" in status["problems"][0]["message"]
    assert r"\xc4\xe3.py" in status["problems"][0]["file"]


async def test_a_path_with_a_null_byte_denies(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": '[[source]]\npath = "a\\u0000.py"\n'}) as daemon,
        daemon.session() as client,
    ):
        assert (await client.fire_tool("Bash"))["cause"] == "load"

"""Reasonix's own cases on a real daemon: what its present line, rewritten in Go, states (RG)."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
import trio

from conformance.native import Place, open_session
from conformance.rows.reasonix import ROWS
from conformance.runs.reasonix import EDIT, read, run, settings
from conformance.table import Checks
from hooklatch import paths
from hooklatch.importing import read_hooks
from support.daemons import RpcFailure
from support.packages import install

check = Checks(ROWS)


# -- where hooks come from ----------------------------------------------------------------------------------------


@check("RG-01")
async def untrusted_project(place: Place) -> None:
    hook = '[[hook]]\nid = "{}"\nevent = "stop"\ncommand = "true"\n'
    project = place.write("repo/.hooklatch/hooks.toml", hook.format("p1") + hook.format("p2")).parent.parent

    async with (
        place.own_daemon({"hooks.toml": hook.format("g")}) as daemon,
        daemon.administrator() as admin,
        open_session(daemon.agent, "reasonix", cwd=str(project)) as client,
    ):
        untrusted = await client.render("Stop")
        await admin.call("trust", folder=str(project))
        trusted = await client.render("Stop")

    assert [outcome["hook"]["id"] for outcome in untrusted["outcomes"]] == ["g"]
    assert [outcome["hook"]["id"] for outcome in trusted["outcomes"]] == ["p1", "p2", "g"]


@check("RG-02")
async def encodings(place: Place) -> None:
    text = json.dumps({"hooks": {"PreToolUse": [{"command": "echo 不行 >&2; exit 2"}]}}, ensure_ascii=False)

    for data in (text.encode("gb18030"), text.encode("utf-8-sig")):
        async with place.session("reasonix", *read(data)) as client:
            answer = await client.render("PreToolUse", **EDIT)
        assert answer["stderr"] == "不行"


@check("RG-03")
async def malformed_global(place: Place) -> None:
    good = '[[hook]]\nid = "good"\nevent = "stop"\ncommand = "true"\n'

    files = {"hooks.toml": "{ not valid", "hooks.d/good.toml": good}
    async with place.own_daemon(files) as daemon, daemon.session() as client:
        denied = await client.fire_tool("shell")
        passed = await client.fire("stop")

    assert (denied["verdict"], denied["cause"]) == ("deny", "load")
    assert [outcome["hook"] for outcome in passed["outcomes"]] == ["good"]


@check("RG-04")
async def plugins_before_global(place: Place) -> None:
    plugin = 'from hooklatch_worker import hook\n\n@hook("stop")\ndef done(event):\n    pass\n'
    packages = place.write("packages/.keep", "").parent
    install(packages, "acme", "acme_hooks_of_a_row", plugin)
    files = {"hooks.toml": '[[hook]]\nid = "g"\nevent = "stop"\ncommand = "true"\n'}
    entry = {"command": "printenv PLUGIN_NAME >&2; exit 2", "env": {"PLUGIN_NAME": "acme"}}

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(packages))
        async with place.own_daemon(files) as daemon, open_session(daemon.agent, "reasonix") as client:
            stop = await client.render("Stop")
    answer = await run(place, "PreToolUse", entry)

    scopes = [(outcome["hook"]["scope"], outcome["hook"]["id"]) for outcome in stop["outcomes"]]
    assert scopes == [("plugin", "acme.done"), ("global", "g")]
    assert answer["stderr"] == "acme"


@check("RG-06")
async def exec_and_shell(place: Place) -> None:
    place.write("tool", '#!/bin/sh\necho "$# arguments" >&2\nexit 2\n').chmod(0o700)

    bare = await run(place, "PreToolUse", {"command": "./tool", "args": []})
    shell = await run(place, "PreToolUse", {"command": "[[ a == a ]] && echo yes >&2; exit 2", "shell": "bash"})

    assert (bare["stderr"], shell["stderr"]) == ("0 arguments", "yes")


@check("RG-07")
async def expansion(place: Place) -> None:
    root = "/plug in/$HOME/${X}"
    words = ["$ROOT", "${ROOT}", "${ROOT:-none}", "${NO_X:-default}", "$ROOT_SUFFIX", "$ROOT-child", "%ROOT%"]
    quoted = " ".join(f'"{word}"' for word in words)
    line = {"command": f"printf '%s\\n' {quoted}", "env": {"ROOT": root}}
    literal = {"command": "printf", "args": ["%s\\n", *words], "env": {"ROOT": root}}

    answer = await run(place, "PreToolUse", line, literal)

    expanded = [root, root, root, "default", "", f"{root}-child", "%ROOT%"]
    assert [outcome["stdout"].splitlines() for outcome in answer["outcomes"]] == [expanded, words]


@check("RG-08")
async def home_override(place: Place) -> None:
    named = {"HOOKLATCH_CONFIG": "/isolated/hooks.toml", "HOME": "/home/me"}

    async with place.own_daemon({}) as daemon, daemon.session() as client:
        assert (await client.call("hooks"))["hooks"] == []

    assert paths.find_config_file(None, named) == "/isolated/hooks.toml"


@check("RG-09")
async def has_hooks(place: Place) -> None:
    async with place.session("reasonix") as client:
        before = await client.hook_ids()
        await client.call("register", hooks=settings(Stop=[{"command": "true"}]))
        after = await client.hook_ids()

    assert (bool(before), bool(after)) == (False, True)


# -- matching -----------------------------------------------------------------------------------------------------

MATCHED = [
    ("PreToolUse", "file", "read_file", False),
    ("PreToolUse", ".*file", "read_file", True),
    ("PreToolUse", "bash", "bash", True),
    ("PreToolUse", "*", "bash", True),
    ("PreToolUse", "", "bash", True),
    ("PreToolUse", "a)|(b", "aXXX", None),
    ("PreToolUse", "[", "bash", None),
    ("PermissionRequest", "file", "read_file", False),
    ("PermissionRequest", ".*file", "read_file", True),
    ("PermissionRequest", "[", "bash", None),
]


@check("RG-10")
async def table_of_matchers(place: Place) -> None:
    for event, match, tool, expected in MATCHED:
        async with place.session("reasonix") as client:
            table = {"hooks": {event: [{"command": "true", "match": match}]}}
            if expected is None:
                with pytest.raises(RpcFailure, match="match"):
                    await client.call("register", hooks=[table])
                continue
            await client.call("register", hooks=[table])
            answer = await client.render(event, toolName=tool, toolArgs={})
        assert bool(answer["outcomes"]) is expected, (event, match, tool)

    assert (await run(place, "UserPromptSubmit", {"command": "true", "match": "x"}, prompt="hi"))["outcomes"]


# -- what an answer means -----------------------------------------------------------------------------------------

BLOCKED = "block"
SLOW = {"command": "sleep 30", "timeout": 200}
UNSTARTED = {"command": "true", "cwd": "/nowhere"}
EXITS = [
    ("PreToolUse", {"command": "exit 0"}, "pass"),
    ("PreToolUse", {"command": "exit 2"}, BLOCKED),
    ("PreToolUse", {"command": "exit 1"}, "warn"),
    ("PreToolUse", SLOW, BLOCKED),
    ("PreToolUse", UNSTARTED, BLOCKED),
    ("PostToolUse", {"command": "exit 2"}, "warn"),
    ("PostToolUse", SLOW, "warn"),
    ("PostToolUse", UNSTARTED, "warn"),
    ("PermissionRequest", {"command": "exit 2"}, BLOCKED),
    ("PermissionRequest", SLOW, BLOCKED),
    ("PermissionRequest", {"command": "exit 2", "payloadFormat": "claude"}, BLOCKED),
    ("PermissionRequest", {**SLOW, "payloadFormat": "claude"}, BLOCKED),
    ("UserPromptSubmit", {"command": "exit 2"}, BLOCKED),
]


@check("RG-14")
async def table_of_exits(place: Place) -> None:
    for event, entry, expected in EXITS:
        payload = {} if event == "UserPromptSubmit" else EDIT
        answer = await run(place, event, entry, **(payload or {"prompt": "hi"}))
        assert answer["decision"] == expected, (event, entry)


@check("RG-18")
async def first_of_two(place: Place) -> None:
    answer = await run(place, "PreToolUse", {"command": "exit 2"}, {"command": "touch second; exit 2"})

    assert (answer["blocked"], len(answer["outcomes"])) == (True, 1)
    assert not (place.folder / "second").exists()


# -- commands -----------------------------------------------------------------------------------------------------


@check("RG-25")
async def not_waited_for(place: Place) -> None:
    for name in ("started", "release"):
        os.mkfifo(place.folder / name)

    async with place.session(
        "reasonix", *settings(Stop=[{"command": "echo on > started; read x < release"}])
    ) as client:
        accepted = await client.call("fire", event="Stop", payload={}, wait=False)
        started = await trio.to_thread.run_sync((place.folder / "started").read_text)
        await trio.to_thread.run_sync((place.folder / "release").write_text, "go\n")
    behind = await run(place, "Stop", {"command": "sleep 30 & exit 0", "timeout": 5000})

    assert (accepted["accepted"], started) == (True, "on\n")
    assert behind["decision"] == "pass"


@check("RG-26")
async def spawner(place: Place) -> None:
    async def one(**entry: Any) -> tuple[str, dict[str, Any]]:
        answer = await run(place, "PostToolUse", entry)
        return answer["decision"], answer["outcomes"][0]

    printed, ended, read = await one(command="printf hi"), await one(command="exit 2"), await one(command="cat")
    late = await one(command="sleep 5", timeout=100)
    long = [(await one(command=f"head -c {size} /dev/zero | tr '\\0' x"))[1] for size in (400_000, 100_000, 60_000)]

    assert (printed[1]["exitCode"], printed[1]["stdout"], ended[1]["exitCode"]) == (0, "hi", 2)
    assert json.loads(read[1]["stdout"])["toolName"] == "edit_file"
    assert (late[0], late[1]["durationMs"] < 1000) == ("warn", True)
    # What an outcome shows is less than what is kept and judged; where something is missing, it says so.
    assert [outcome.get("truncated", False) for outcome in long] == [True, True, False]
    assert [len(outcome["stdout"]) for outcome in long] == [64 * 1024, 64 * 1024, 60_000]


@check("RG-27")
async def literal_arguments(place: Place) -> None:
    words = ["", "a b", "$HOME", "%PATH%", "!X!", "a && b", "'\"`", "line\nbreak", "\N{GRINNING FACE}"]
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"

    answer = await run(place, "PreToolUse", {"command": sys.executable, "args": ["-c", program, *words]})

    assert json.loads(answer["outcomes"][0]["stdout"]) == words


@check("RG-28")
async def real_shell(place: Place) -> None:
    line = """printf '%s|' 'a  b' "$WORD" "$(echo sub | tr a-z A-Z)" $( (exit 3); echo $? ) "$(wc -l)" """

    answer = await run(place, "PreToolUse", {"command": line, "env": {"WORD": "from env"}})

    assert [part.strip() for part in answer["outcomes"][0]["stdout"].split("|")[:-1]] == [
        "a  b", "from env", "SUB", "3", "1",
    ]  # fmt: skip


@check("RG-29")
async def errors_are_told_apart(place: Place) -> None:
    unknown_shell = read_hooks("s.json", b'{"hooks": {"Stop": [{"command": "dir", "shell": "cmd"}]}}')
    async with place.session("reasonix") as client:
        with pytest.raises(RpcFailure, match="payload is one of"):
            await client.call("register", hooks=[{"event": "Stop", "command": "true", "payload": "xml"}])

    missing = await run(place, "PreToolUse", {"command": "./no-such-program", "args": []})
    other = await run(place, "PostToolUse", {"command": "echo why >&2; exit 7"})
    late = await run(place, "PreToolUse", {"command": "sleep 5", "timeout": 50})

    assert "it is for the shell 'cmd'" in str(unknown_shell.hooks[0].problem)
    assert "could not be started" in missing["stderr"]
    assert (other["outcomes"][0]["exitCode"], other["outcomes"][0]["stderr"]) == (7, "why\n")
    assert "timed out" in late["stderr"]


@check("RG-30")
async def runner(place: Place) -> None:
    async with place.session("reasonix") as client:
        nothing = await client.render("PreToolUse", **EDIT)
    passed = await run(place, "PreToolUse", {"command": "exit 0"})
    blocked = await run(place, "PreToolUse", {"command": "echo no >&2; exit 2"})

    assert [(answer["blocked"], answer["message"]) for answer in (nothing, passed)] == [(False, "")] * 2
    assert (blocked["blocked"], blocked["stderr"]) == (True, "no")
    assert "no" in blocked["message"]


@check("RG-31")
async def observers(place: Place) -> None:
    after = await run(place, "PostToolUse", {"command": "echo tell >&2; exit 1"})
    request = await run(place, "PermissionRequest", {"command": "exit 2"})

    assert (after["blocked"], "tell" in after["message"], after["stdout"]) == (False, True, "")
    assert request["blocked"] is True


@check("RG-33")
async def reasoning(place: Place) -> None:
    said = {"exitCode": 0, "stdout": "  text  "}
    json_hook = {"event": "post_model", "id": "j", "output": "json", "payload": "reasonix"}
    answers: list[dict[str, Any]] = [said, {**said, "stdout": "  "}, {**said, "exitCode": 1}]

    for answer, expected in zip(answers, ["text", "", ""], strict=True):
        async with place.session("reasonix", {"event": "PostLLMCall", "id": "r"}, r=lambda _, a=answer: a) as client:
            assert (await client.render("PostLLMCall", reasoning="because", turn=1))["stdout"] == expected
    printed = {**json_hook, "command": """echo '{"patch": {"reasoning": "text"}}'"""}
    async with place.session("reasonix", printed) as client:
        assert (await client.render("PostLLMCall", reasoning="because", turn=1))["stdout"] == "text"
    async with place.session("reasonix") as client:
        assert (await client.render("PostLLMCall", reasoning="because", turn=1))["stdout"] == ""


@pytest.mark.parametrize("holds", check.cases())
async def test_a_row_of_the_present_line(holds: Any, place: Place) -> None:
    await holds(place)

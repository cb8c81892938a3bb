"""Other systems' files of hooks: what is kept, what is noted, and that the result always loads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hooklatch.core.hooks.definitions import HookDefinition
from hooklatch.core.hooks.shell_definitions import ShellCommand
from hooklatch.dialects.reasonix import REASONIX
from hooklatch.importing import ImportResult, UnreadableFileError, claude, read_hooks, reasonix
from hooklatch.importing.writing import write_toml
from hooklatch.service.config.configuration import read_config
from hooklatch_worker.runtime.shell_forms import CLAUDE_NAMES
from support.tables import table

RADIUM = """
enable_profiling = true

[[hooks]]
name = "late"
type = "before_tool"
script = "cat > /dev/null; echo refused >&2; exit 2"
priority = 50

[[hooks]]
name = "first"
type = "before_model"
script = "./first.sh"
priority = 4000000000
enabled = false
[hooks.config]
log_level = "info"
since = 2026-01-02T03:04:05Z
"a key" = [1, 2.5, { deep = true }]

[[hooks]]
name = "no-script"
type = "after_tool"
[hooks.config]
x = 1
"""


def claude_file(event: str, matcher: object = None, **handler: Any) -> bytes:
    group = {"hooks": [{"type": "command", "command": "guard.sh", **handler}]}
    return json.dumps({"hooks": {event: [group if matcher is None else {"matcher": matcher, **group}]}}).encode()


def reasonix_file(event: str, **entry: Any) -> bytes:
    return json.dumps({"hooks": {event: [{"command": "guard.sh", **entry}]}}).encode()


def imported(data: bytes | str, name: str = "settings.json") -> ImportResult:
    return read_hooks(name, data.encode() if isinstance(data, str) else data)


def text_of(found: ImportResult) -> str:
    return write_toml(found, origin="/home/me/settings.json", stem="mine")


def hooks_of(found: ImportResult) -> list[HookDefinition]:
    """Return the hooks that a daemon would have, all of them without a problem."""
    hooks = read_config("/mine.toml", text_of(found).encode()).hooks
    assert [hook.problem for hook in hooks] == [None] * len(hooks)
    return hooks


def only(data: bytes | str, name: str = "settings.json") -> HookDefinition:
    hooks = hooks_of(imported(data, name))
    assert len(hooks) == 1
    return hooks[0]


def shell_of(data: bytes | str, name: str = "settings.json") -> ShellCommand:
    shell = only(data, name).shell
    assert shell is not None
    return shell


def notes_of(data: bytes | str, name: str = "settings.json") -> str:
    found = imported(data, name)
    return "\n".join([*map(str, found.notes), *(str(hook.problem) for hook in found.hooks if hook.problem)])


def test_the_events_are_those_that_a_command_can_be_told_of() -> None:
    assert {theirs: ours for ours, theirs in CLAUDE_NAMES.items()} == claude.EVENTS
    assert reasonix.EVENTS.keys() < REASONIX.events.keys()


def test_a_group_of_claude_code_keeps_form_table_and_seconds() -> None:
    hook = only(claude_file("PreToolUse", "Bash", timeout=7))

    assert (hook.event, hook.matcher.source, hook.timeout) == ("pre_tool_use", "Bash", 7.0)
    assert re.fullmatch(r"mine:PreToolUse:guard\.sh:[0-9a-f]{8}", hook.id)
    assert hook.shell == ShellCommand(command="guard.sh", payload="claude", output="json", exit_codes="advisory")


def test_an_entry_of_reasonix_keeps_form_table_and_milliseconds() -> None:
    hook = only(
        reasonix_file("PreToolUse", match="edit_file", timeout=999, cwd="sub", description="why", env={"A": "b"})
    )

    assert (hook.event, hook.matcher.source, hook.timeout) == ("pre_tool_use", "edit_file", 0.999)
    assert hook.description == "why"
    assert hook.shell == ShellCommand(
        command="guard.sh", payload="reasonix", exit_codes="advisory", cwd="sub", env={"A": "b"}
    )


def test_on_failure_block_of_claude_code_makes_the_table_strict() -> None:
    assert shell_of(claude_file("PreToolUse", onFailure="block")).exit_codes == "strict"


@pytest.mark.parametrize(
    ("event", "timeout"), [("PreToolUse", 600.0), ("UserPromptSubmit", 30.0), ("SessionEnd", None)]
)
def test_the_default_time_limits_of_claude_code_are_written_out(event: str, timeout: float | None) -> None:
    assert only(claude_file(event)).timeout == timeout


def test_the_default_time_limits_of_reasonix_are_ours() -> None:
    assert only(reasonix_file("PreToolUse")).timeout is None


@table(
    ("data", "timeout", "said"),
    [
        (claude_file("PreToolUse", timeout=5000), 600.0, "cut to 10 min"),
        (claude_file("PreToolUse", timeout=10**400), 600.0, "cut to 10 min"),
        (claude_file("PreToolUse", timeout="5"), 600.0, "is not a duration"),
        (claude_file("PreToolUse", timeout=True), 600.0, "is not a duration"),
        (claude_file("PreToolUse", timeout=-1), 600.0, "is not a duration"),
        (claude_file("PreToolUse").replace(b'"guard.sh"', b'"guard.sh", "timeout": NaN'), 600.0, "is not a duration"),
        (claude_file("PreToolUse").replace(b'"guard.sh"', b'"guard.sh", "timeout": 1e999'), 600.0, "is not a duration"),
        (reasonix_file("PreToolUse", timeout=0), None, "is not a duration"),
        (reasonix_file("PreToolUse", timeout=30), 0.03, "meant in seconds?"),
        (reasonix_file("PreToolUse", timeout=0.0001), 0.001, "meant in seconds?"),
        (reasonix_file("PreToolUse", timeout=700000), 600.0, "cut to 10 min"),
    ],
)
def test_a_time_limit_that_cannot_be_kept_is_said(data: bytes, timeout: float | None, said: str) -> None:
    assert only(data).timeout == timeout
    assert said in notes_of(data)


@table(
    ("matcher", "source"),
    [
        (None, None),
        ("", None),
        ("*", None),
        ("Bash", "Bash"),
        ("Edit|Write, NotebookEdit", ["Edit", "Write", "NotebookEdit"]),
        ("mcp__memory", "mcp__memory"),
        ("mcp__.*", {"regex": "mcp__.*", "search": True}),
        ("a)|(b.", None),
    ],
)
def test_matchers_of_claude_code_are_names_or_searched(matcher: str | None, source: object) -> None:
    found = imported(claude_file("PreToolUse", matcher))

    if matcher == "a)|(b.":
        assert [hook.problem is None for hook in found.hooks] == [False]
    else:
        assert hooks_of(found)[0].matcher.source == source


@pytest.mark.parametrize(
    ("match", "fires_on", "not_on"),
    [
        ("edit_file|write_file", ["edit_file", "write_file"], ["read_file", "edit_file|write_file"]),
        ("file", ["file"], ["edit_file"]),
        (".*file", ["edit_file"], ["files"]),
        ("*", ["anything"], []),
    ],
)
def test_matchers_of_reasonix_match_the_whole_name(match: str, fires_on: list[str], not_on: list[str]) -> None:
    matcher = only(reasonix_file("PreToolUse", match=match)).matcher

    assert all(map(matcher.matches, fires_on))
    assert not any(map(matcher.matches, not_on))


@pytest.mark.parametrize("match", ["[unclosed", "a)|(b", 42, ["a"]])
def test_a_matcher_of_reasonix_that_is_none_leaves_a_comment(match: object) -> None:
    found = imported(reasonix_file("PreToolUse", match=match))

    assert hooks_of(found) == []
    assert "# [[hook]]" in text_of(found)
    assert found.has_losses


@pytest.mark.parametrize("data", [reasonix_file("UserPromptSubmit", match="never"), claude_file("Stop", "never")])
def test_a_matcher_that_means_nothing_there_does_not_narrow_a_guard_here(data: bytes) -> None:
    assert only(data).matcher.matches_all
    assert "has no effect" in notes_of(data)
    assert not imported(data).has_losses


@pytest.mark.parametrize("pattern", ["^(?!Read$).*", r"(a)\1x"])
def test_a_pattern_that_re2_cannot_run_is_a_comment_to_be_mended(pattern: str) -> None:
    found = imported(claude_file("PreToolUse", pattern))
    commented = [line.removeprefix("# ") for line in text_of(found).splitlines() if line.startswith("# ")]
    table = "\n".join(commented[commented.index("[[hook]]") :])

    assert hooks_of(found) == []
    assert "RE2" in notes_of(claude_file("PreToolUse", pattern))
    assert read_config("/mended.toml", table.replace(json.dumps(pattern), '"Bash"').encode()).hooks[0].problem is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (claude_file("PreToolUse", **{"if": "Bash(git *)"}), "runs only if 'Bash(git *)'"),
        (claude_file("SessionEnd", "clear"), "nothing to match 'clear' on"),
        (claude_file("PreToolUse", "|"), "names nothing"),
        (claude_file("PreToolUse", command="${CLAUDE_PLUGIN_ROOT}/x.sh"), "$CLAUDE_PLUGIN_ROOT, which is not set"),
        (reasonix_file("PreToolUse", command="$REASONIX_HOME/x.sh"), "$REASONIX_HOME, which is not set"),
    ],
)
def test_what_would_run_otherwise_than_it_did_is_a_comment(data: bytes, said: str) -> None:
    found = imported(data)

    assert hooks_of(found) == []
    assert said in text_of(found)
    assert found.has_losses


@table(
    ("data", "said"),
    [
        (claude_file("PreToolUse", type="http", url="http://x"), "type 'http'"),
        (claude_file("PreToolUse", type="prompt", prompt="x"), "type 'prompt'"),
        (claude_file("PreToolUse", type="comand"), "type 'comand' cannot run here; did you mean 'command'?"),
        (claude_file("PreToolUse", shell="powershell"), "shell 'powershell'"),
        (claude_file("PreToolUse", args=[1]), "args is a list of strings"),
        (claude_file("PreToolUse", args="x"), "args is a list of strings"),
        (claude_file("PreToolUse", 42), "its matcher is a string"),
        (claude_file("PreToolUse", command="a\0b"), "null byte"),
        (claude_file("PreToolUse", command="a\ud800b"), "not valid Unicode"),
        (claude_file("PreToolUze"), "no event here for 'PreToolUze'; did you mean 'PreToolUse'?"),
        (claude_file("pre_tool_use"), "no event here for 'pre_tool_use'; did you mean 'PreToolUse'?"),
        (reasonix_file("PreToolUze"), "no event here for 'PreToolUze'; did you mean 'PreToolUse'?"),
        (reasonix_file("PreToolUse", contextFile="x"), "contextFile"),
        (reasonix_file("PreToolUse", env={"A": 1}), "env is a table of strings"),
        (b'{"hooks": {"PreToolUse": [{"comand": "x"}]}}', "no command; 'comand' is not known here; did you mean"),
        (b'{"hooks": {"PreToolUse": [{"hook": []}]}}', "'hook' is not known here; did you mean 'hooks'?"),
        (b'{"hooks": {"PreToolUse": [{"hooks": [{"comand": "x"}]}]}}', "did you mean 'command'?"),
        (b'{"hooks": {"PreToolUse": [{"hooks": 1}]}}', "its hooks are a list"),
        (b'{"hooks": {"PreToolUse": [{"hooks": [1]}]}}', "it is 1, not a handler"),
        (b'{"hooks": {"PreToolUse": [1]}}', "it is 1, not an object"),
        (b'{"hooks": {"PreToolUse": {"command": "x"}}}', "its entries are a list"),
        (b'{"PreToolUse": {"command": "x"}, "Stop": []}', "its entries are a list"),
        *((reasonix_file("PreToolUse", command=command), "its command is") for command in ("", "  ", 42, None)),
        *((claude_file("PreToolUse", command=command), "its command is") for command in ("", "  ", 42, None)),
    ],
)
def test_an_entry_on_a_known_gate_that_cannot_run_keeps_its_place(data: bytes, said: str) -> None:
    found = imported(data)

    assert [hook.settings["event"] for hook in found.hooks] == ["pre_tool_use"]
    assert said in str(found.hooks[0].problem)
    assert found.has_losses
    assert hooks_of(found) == []
    assert "# [[hook]]" in text_of(found)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (claude_file("CwdChanged"), "no event here for 'CwdChanged'"),
        (b'{"hooks": {"Nonsense": 1}}', "its entries are a list"),
        (b'[{"event": "Stop", "command": "x"}, 1]', "it is not an object"),
        (b'[{"event": "Stop", "command": "x"}, {"command": "x"}]', "it names no event"),
    ],
)
def test_what_says_nothing_that_we_know_is_dropped_and_said(data: bytes, said: str) -> None:
    found = imported(data)

    assert any(note.is_dropped and said in note.text for note in found.notes)
    assert found.has_losses
    assert said in text_of(found)


def test_an_entry_that_cannot_run_narrows_its_gate_by_its_matcher() -> None:
    (hook,) = imported(claude_file("PreToolUse", "Bash", command="")).hooks

    assert hook.settings["match"] == "Bash"


def test_a_key_that_stands_twice_refuses_the_file() -> None:
    with pytest.raises(UnreadableFileError, match="'PreToolUse' occurs twice"):
        imported(b'{"hooks": {"PreToolUse": [{"command": "guard"}], "PreToolUse": []}}')


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b'{"hooks": {\n"Stop": [\n{"command": "a:[{"},\n{"command":\n"b"}]}}', [3, 4]),
        (b'[\n\n{"event": "Stop", "command": "a"}, {"event": "Stop",\n"command": "b\\"]"}]', [3, 3]),
        (b'{"Stop": [\n{"hooks": [\n{"command": "a"},\n\n {"command": "b"}]}]}', [3, 5]),
    ],
)
def test_messages_know_the_line_of_an_entry(data: bytes, lines: list[int]) -> None:
    found = imported(data)

    assert [found.line_of(hook.place) for hook in found.hooks] == lines


@pytest.mark.parametrize(
    ("handler", "target"),
    [
        ({"args": []}, {"argv": ["guard.sh"]}),
        ({"args": ["a b", "$HOME", ""]}, {"argv": ["guard.sh", "a b", "$HOME", ""]}),
        ({"shell": "bash"}, {"argv": ["bash", "-c", "guard.sh"]}),
        ({"command": "${CLAUDE_PROJECT_DIR}/g.sh", "args": []}, {"command": """exec "${CLAUDE_PROJECT_DIR}"/g.sh"""}),
    ],
)
def test_exec_forms_and_named_shells_become_an_argv(handler: dict[str, Any], target: Mapping[str, Any]) -> None:
    shell = shell_of(claude_file("PreToolUse", **handler))

    assert {key: value for key in ("command", "argv") if (value := getattr(shell, key)) is not None} == target


def test_an_async_command_of_claude_code_goes_on_refusing_nothing() -> None:
    gate, other = (only(claude_file(event, **{"async": True})) for event in ("PreToolUse", "Stop"))

    assert (gate.observe, other.observe) == (True, False)
    assert "it is waited for" in notes_of(claude_file("Stop", **{"async": True}))


@pytest.mark.parametrize("event", ["PermissionRequest", "PreCompact"])
def test_a_hook_of_reasonix_that_could_not_refuse_and_can_here_is_noted(event: str) -> None:
    assert "exit code 2 refuses here" in notes_of(reasonix_file(event))


def test_output_that_reasonix_takes_and_nobody_reads_here_is_a_loss() -> None:
    assert imported(reasonix_file("PostLLMCall")).has_losses


def test_the_claude_form_within_reasonix_is_kept() -> None:
    shell = shell_of(reasonix_file("PreToolUse", payloadFormat="claude"))

    assert (shell.payload, shell.output, shell.exit_codes) == ("claude", "json", "advisory")


@pytest.mark.parametrize("file", [claude_file, reasonix_file])
def test_a_file_of_another_system_may_have_our_mark(file: Callable[..., bytes]) -> None:
    assert [hook.amends for hook in hooks_of(imported(file("PreToolUse", amends=True)))] == [True]
    assert [hook.amends for hook in hooks_of(imported(file("PreToolUse", amends="yes")))] == [False]
    assert "the hook is a guard" in notes_of(file("PreToolUse", amends="yes"))
    assert [hook.only_judges for hook in hooks_of(imported(file("PreToolUse", only_judges=True)))] == [True]
    assert "only_judges 1 is not true or false" in notes_of(file("PreToolUse", only_judges=1))


def test_keys_that_nobody_knows_are_said() -> None:
    assert "'flavour' is not known here" in notes_of(claude_file("Stop", flavour="x"))
    assert "'matcher' is not known here" in notes_of(reasonix_file("PreToolUse", matcher="x"))


def test_what_is_switched_off_there_is_switched_off_here() -> None:
    data = claude_file("PreToolUse").replace(b'{"hooks"', b'{"disableAllHooks": true, "hooks"', 1)

    assert not only(data).enabled
    assert "disableAllHooks" in notes_of(data)


def test_a_switch_of_claude_code_switches_no_hook_of_reasonix_off() -> None:
    data = reasonix_file("PreToolUse").replace(b'{"hooks"', b'{"disableAllHooks": true, "hooks"', 1)

    assert only(data).enabled
    assert "disableAllHooks" not in notes_of(data)


@pytest.mark.parametrize("shape", ['{{"hooks": {0}}}', "{0}", '{{"model": "x", "PreToolUse": [{1}]}}', "[{1}]"])
def test_reasonix_hooks_may_stand_in_any_of_its_shapes(shape: str) -> None:
    entry = '{"event": "PreToolUse", "command": "x"}'
    data = shape.format(f'{{"PreToolUse": [{entry}]}}', entry)

    assert only(data).event == "pre_tool_use"
    assert imported(data).kind == "reasonix"


def entries(*hooks: dict[str, Any]) -> dict[str, str]:
    """Return the ids of Reasonix's hooks, by their commands and time limits."""
    found = imported(json.dumps({"hooks": {"PreToolUse": list(hooks)}})).hooks
    return {f"{hook.settings['command']} {hook.settings.get('timeout')}": hook.settings["id"] for hook in found}


def test_an_id_comes_from_what_a_hook_is_and_never_from_its_place() -> None:
    first, second = {"command": "a.sh", "match": "x"}, {"command": "a.sh", "match": "y"}
    third = {"command": "/opt/b.sh --all"}

    before, after = entries(first, second, third), entries(third, second)

    assert len(set(entries(first, third).values()) | set(entries(second).values())) == 3
    assert after["/opt/b.sh --all None"] == before["/opt/b.sh --all None"]
    assert after["a.sh None"] == before["a.sh None"]
    assert after["/opt/b.sh --all None"].startswith("PreToolUse:b.sh:")


def test_hooks_that_are_alike_but_for_their_limits_never_take_each_others_id() -> None:
    slow, quick = {"command": "a.sh", "timeout": 9000}, {"command": "a.sh", "timeout": 500}

    both, one = entries(slow, quick), entries(quick)

    assert both == entries(quick, slow)
    assert both["a.sh 9.0"] not in one.values()


def test_the_same_hook_twice_is_one() -> None:
    found = imported(json.dumps({"hooks": {"Stop": [{"command": "a"}, {"command": "a"}]}}))

    assert len(found.hooks) == 1
    assert "the same as Stop[1]" in str(found.notes)


def test_radium_hooks_come_in_their_order_with_their_config() -> None:
    found = imported(RADIUM, "hooks.toml")
    first, late = hooks_of(found)

    assert (found.kind, first.id, first.event, first.priority, first.enabled) == (
        "radium", "mine:first", "pre_model", 1000, False,
    )  # fmt: skip
    assert json.loads(first.config) == {
        "log_level": "info", "since": "2026-01-02T03:04:05Z", "a key": [1, 2.5, {"deep": True}],
    }  # fmt: skip
    assert (late.id, late.event, late.priority, late.enabled) == ("mine:late", "pre_tool_use", 50, True)
    assert "priority 4000000000 was cut to 1000" in notes_of(RADIUM, "hooks.toml")
    assert "'no-script' has no script" in notes_of(RADIUM, "hooks.toml")


def test_an_entry_of_radium_without_a_script_becomes_a_stub_and_an_override() -> None:
    text = text_of(
        imported('[[hooks]]\nname = "rate limit"\ntype = "before_tool"\npriority = 7\nenabled = false\n', "h.toml")
    )
    stub = text.partition("# [[hook]]")[2].replace("\n# ", "\n").partition("or, where a plugin has it")

    hook = read_config("/mine.toml", f"[[hook]]{stub[0]}".encode()).hooks[0]
    override = read_config("/hooks.toml", stub[2].partition("\n")[2].encode()).overrides[0]

    assert (hook.event, hook.run, hook.priority, hook.enabled) == (
        "pre_tool_use",
        "radium_hooks.py:rate_limit",
        7,
        False,
    )
    assert (override.id, override.changes) == ("rate limit", {"enabled": False, "priority": 7})


def test_priorities_of_radium_that_do_not_fit_keep_their_order() -> None:
    entries = [f'[[hooks]]\nname = "{n}"\ntype = "before_tool"\nscript = "x"\npriority = {n}' for n in (2000, 50, 3000)]

    ids = [hook.id for hook in hooks_of(imported("\n".join(entries), "hooks.toml"))]

    assert ids == ["mine:3000", "mine:2000", "mine:50"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('name = ""\ntype = "before_tool"\nscript = "x"', "it has no name"),
        ('name = "a"\nscript = "x"', "no hook type None"),
        ('name = "a"\ntype = "nonsense"\nscript = "x"', "no hook type 'nonsense'"),
    ],
)
def test_tables_of_radium_that_are_no_hooks_are_said(table: str, said: str) -> None:
    found = imported(f"[[hooks]]\n{table}\n", "hooks.toml")

    assert found.hooks == []
    assert said in text_of(found)


def test_all_types_of_radium_are_known() -> None:
    types = "before_model after_model before_tool after_tool tool_selection error_interception error_transformation"
    types += " error_recovery error_logging telemetry_collection custom_logging metrics_aggregation"
    types += " performance_monitoring"
    tables = [f'[[hooks]]\nname = "same"\ntype = "{name}"\nscript = "x"' for name in types.split()]

    hooks = hooks_of(imported("\n".join(tables), "hooks.toml"))

    assert len({hook.id for hook in hooks}) == len({hook.event for hook in hooks}) == 13

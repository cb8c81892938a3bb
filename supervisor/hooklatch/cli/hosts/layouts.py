"""The place and the form of each program's hooks.  Data with small functions: opens no file, starts no program.

The sources are the programs themselves, as measured with the versions named here, and their documentation.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from hooklatch.cli.hosts.editing import MARK, JsoncError, find_beyond_json
from hooklatch.cli.hosts.entries import SettingsShape
from hooklatch.cli.hosts.machine_files import MACHINE_FILES, NONE, TITLES, MachineFiles, System, name_system
from hooklatch.cli.hosts.text_forms import SCRIPT
from hooklatch.hosts.host import HostEventSpec

__all__ = [
    "LAYOUTS", "SettingsLayout", "Scope", "Version", "make_handler", "make_layouts", "is_known", "read_version",
    "format_version",
]  # fmt: skip

Scope: TypeAlias = Literal["user", "project"]
Version: TypeAlias = tuple[int, ...]

ON_FAILURE: Final = (2, 1, 295)  # Claude Code: from here on a hook that cannot start or is killed can block
ALL_EVENTS: Final = (2, 1, 240)  # Claude Code: the first whose documentation has 33 events
SKILL_EVENT: Final = "PreSkillShellCommand"
SKILL_EVENT_SINCE: Final = (2, 1, 332)  # Claude Code: the first that was seen to have it; 2.1.330 has not
# Claude Code: what every version with hooks knows.
FIRST_EVENTS: Final = frozenset(
    {
        *("PreToolUse", "PostToolUse", "Notification", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact"),
        *("SessionStart", "SessionEnd"),
    }
)
QWEN_EVENTS: Final = (0, 24)  # Qwen Code: the first that was seen to have these too
LATER_QWEN_EVENTS: Final = frozenset(
    {
        *("UserPromptExpansion", "PermissionDenied", "PostToolBatch", "MessageDisplay", "InstructionsLoaded"),
        *("TodoCreated", "TodoCompleted", "SessionDelete"),
    }
)


@dataclass(frozen=True, slots=True)
class SettingsLayout:
    """One program's settings.

    `programs` are the names of its command; `variable` names the environment variable that moves the user's `folder`.
    `user` and `project` are paths below that folder and below the project.  `unit` is the handler's unit of time.
    `oldest` is the first version whose hooks are known to be as described here.
    """

    name: str
    programs: tuple[str, ...]
    folder: str
    user: str
    project: str
    variable: str = ""
    variable_names_home: bool = False  # the folder is below what the variable names
    of_root: bool = False  # of a project, it reads the files at the root of the repository alone
    shape: SettingsShape = field(default_factory=SettingsShape)
    unit: Literal["s", "ms"] = "s"
    command: str = "command"
    timeout: str = "timeout"
    has_type: bool = True
    oldest: Version = ()
    measured: str = ""  # the version that was played
    fails: str = ""  # what it does where an entry is killed or late
    skip: Callable[[str], bool] = lambda event: False
    names_entries: bool = False
    # What has an entry of a gate refuse where it fails; `strict_since` is the first version that takes it.
    strict: Mapping[str, object] = field(default_factory=dict[str, object])
    strict_since: Version = ()
    knows: Callable[[str, Version | None], bool] = lambda event, version: True
    gate: str = "PreToolUse"  # the event of the canary
    canary: Mapping[str, Any] = field(default_factory=dict[str, Any])
    form: Literal["json", "toml", "scripts", "plugin"] = "json"
    system: System = "linux"
    machine: MachineFiles = NONE  # the layer that only root can write; `make_layouts` sets it
    # Whether it accepts comments in its settings; None: not tried.  And a comma too many, and a byte order mark.
    has_comments: bool | None = False
    has_commas: bool = False
    has_mark: bool = False

    def describe_unread_part(self, title: str, path: str, data: bytes | None) -> str | None:
        """Return what a host does not read in a file, though hooklatch does: it then ignores the whole file."""
        text = (data or b"").decode(errors="replace")
        error = find_beyond_json(text, has_comments=self.has_comments is True, has_commas=self.has_commas)
        if text.startswith(MARK) and not self.has_mark:
            error = JsoncError("a byte order mark", text, 0)
        if error is None:
            return None
        does, ignores = ("may", "ignore") if self.has_comments is None else ("does", "ignores")
        return (
            f"{title} {does} not read {error.what} ({path}:{error.line}:{error.column}), and {ignores} the whole file"
        )

    @property
    def is_plugin(self) -> bool:
        return self.form == "plugin"

    @property
    def managed(self) -> str:
        """Return the file of ours that only root can write, "" if there is no such layer or it is not known."""
        return self.machine.ours

    @property
    def managed_files(self) -> tuple[str, ...]:
        """Return that file and, before it, the plugin that it names; behind it, the one that turns others off."""
        plugin = os.path.join(os.path.dirname(self.managed), "hooklatch.js") if self.is_plugin else ""
        return tuple(filter(None, (plugin, self.managed, self.machine.beside))) if self.managed else ()

    @property
    def managed_fault(self) -> str:
        """Return why there is no such file of ours, "" if there is one."""
        if not self.machine.is_known:
            return f"where it keeps settings that only root can write is not known on {TITLES[self.system]}"
        return "" if self.managed else "it has no settings that only root can write"

    def place(self, path: str, event: str) -> str:
        """Return the file of an event's entry; `path` is the one of the gate."""
        return os.path.join(os.path.dirname(path), f"{event}{SCRIPT}") if self.form == "scripts" else path

    def file(self, scope: Scope, environ: Mapping[str, str], folder: str) -> str:
        """Return the path of the user's settings, or of those of the project in `folder`."""
        if scope == "project":
            return os.path.join(folder, self.project)
        named = environ.get(self.variable, "") if self.variable else ""
        if os.path.isabs(named):
            base = os.path.join(named, os.path.basename(self.folder)) if self.variable_names_home else named
        else:
            base = os.path.join(os.path.expanduser("~"), self.folder)
        return os.path.join(base, self.user)


def knows_claude_event(event: str, version: Version | None) -> bool:
    since = SKILL_EVENT_SINCE if event == SKILL_EVENT else ALL_EVENTS
    return version is None or version >= since or event in FIRST_EVENTS


def knows_qwen_event(event: str, version: Version | None) -> bool:
    return version is None or version >= QWEN_EVENTS or event not in LATER_QWEN_EVENTS


RUNS: Final = "the tool runs"
BLOCKS: Final = "the tool is blocked"  # by an option of the entry
CALL: Final = {"session_id": "hooklatch-doctor", "tool_name": "Bash", "tool_input": {"command": "true"}}
VERSIONED: Final = (("version", 1),)

ROWS: Final[Mapping[str, SettingsLayout]] = MappingProxyType(
    {
        layout.name: layout
        for layout in (
            SettingsLayout(
                name="claude-code", programs=("claude",), folder=".claude", variable="CLAUDE_CONFIG_DIR",
                # Not .claude/settings.json, which is shared: an entry names this machine's Python.
                user="settings.json", project=".claude/settings.local.json", measured="2.1.332",
                has_mark=True, strict={"onFailure": "block"}, strict_since=ON_FAILURE, knows=knows_claude_event,
                canary={**CALL, "tool_use_id": "hooklatch-doctor"},
            ),
            SettingsLayout(
                name="codex", programs=("codex",), folder=".codex", variable="CODEX_HOME",
                user="hooks.json", project=".codex/hooks.json", oldest=(0, 146), measured="0.171.0",
                canary={**CALL, "turn_id": "hooklatch-doctor", "tool_use_id": "hooklatch-doctor"},
            ),
            SettingsLayout(
                name="gemini", programs=("gemini",), folder=".gemini", variable="GEMINI_CLI_HOME",
                variable_names_home=True, user="settings.json", project=".gemini/settings.json", unit="ms",
                measured="0.61.0", has_comments=True, names_entries=True, gate="BeforeTool",
                canary={**CALL, "tool_name": "run_shell_command"},
            ),
            SettingsLayout(
                name="copilot", programs=("copilot",), folder=".copilot", variable="COPILOT_HOME",
                of_root=True,
                user="hooks/hooklatch.json", project=".github/hooks/hooklatch.json", command="bash",
                timeout="timeoutSec", shape=SettingsShape(is_grouped=False, root=VERSIONED), oldest=(1, 0, 80),
                measured="1.0.102",
                skip=lambda event: event[:1].isupper(), gate="preToolUse",
                canary={"sessionId": "hooklatch-doctor", "toolName": "bash", "toolArgs": {"command": "true"}},
            ),
            SettingsLayout(
                name="cursor", programs=("cursor-agent", "cursor"), folder=".cursor", user="hooks.json",
                has_comments=None,
                project=".cursor/hooks.json", shape=SettingsShape(is_grouped=False, root=VERSIONED), has_type=False,
                strict={"failClosed": True}, gate="preToolUse",
                canary={
                    "conversation_id": "hooklatch-doctor", "generation_id": "hooklatch-doctor", "tool_name": "Shell",
                    "tool_input": {"command": "true"}, "tool_use_id": "hooklatch-doctor", "workspace_roots": [],
                },
            ),
            SettingsLayout(
                name="opencode", programs=("opencode",), folder=".config/opencode", variable="XDG_CONFIG_HOME",
                variable_names_home=True, user="plugins/hooklatch.js", project=".opencode/plugins/hooklatch.js",
                measured="1.18.33", gate="tool.execute.before", form="plugin",
            ),
            SettingsLayout(
                name="qwen", programs=("qwen",), folder=".qwen", user="settings.json",
                project=".qwen/settings.json", unit="ms", measured="0.24.4", has_comments=True,
                has_mark=True, names_entries=True, knows=knows_qwen_event,
                canary={**CALL, "tool_name": "run_shell_command", "tool_use_id": "hooklatch-doctor"},
            ),
            SettingsLayout(
                name="kimi", programs=("kimi",), folder=".kimi-code", variable="KIMI_CODE_HOME", user="config.toml",
                project="", form="toml", has_type=False, measured="2.1.0", has_comments=True,
                fails=RUNS, canary={**CALL, "tool_call_id": "hooklatch-doctor"},
            ),
            SettingsLayout(
                name="grok", programs=("grok",), folder=".grok", variable="GROK_HOME", user="hooks/hooklatch.json",
                project=".grok/hooks/hooklatch.json", measured="1.0.41",
                fails=RUNS, canary={**CALL, "tool_name": "run_terminal_command", "tool_use_id": "hooklatch-doctor"},
            ),
            SettingsLayout(
                name="letta", programs=("letta",), folder=".letta", user="settings.json",
                project=".letta/settings.local.json", unit="ms", measured="0.32.18",
                fails=RUNS, canary={**CALL, "event_type": "PreToolUse", "tool_call_id": "hooklatch-doctor"},
            ),
            SettingsLayout(
                name="cline", programs=("cline",), folder=".cline", user=f"hooks/PreToolUse{SCRIPT}",
                project=f".cline/hooks/PreToolUse{SCRIPT}", form="scripts", measured="3.0.65",
                fails=RUNS, canary={
                    "hookName": "tool_call", "taskId": "hooklatch-doctor",
                    "tool_call": {"id": "hooklatch-doctor", "name": "run_commands", "input": {"commands": ["true"]}},
                },
            ),
            SettingsLayout(
                name="auggie", programs=("auggie",), folder=".augment", user="settings.json",
                project=".augment/settings.local.json", unit="ms", measured="0.36.0",
                has_comments=True, has_commas=True, has_mark=True,
                fails=RUNS, canary={"conversation_id": "hooklatch-doctor", "tool_name": "launch-process",
                        "tool_input": {"command": "true"}},
            ),
            SettingsLayout(
                name="droid", programs=("droid",), folder=".factory", variable="FACTORY_HOME_OVERRIDE",
                variable_names_home=True, user="settings.json", project=".factory/settings.json", measured="0.225.2",
                has_comments=True, fails=RUNS,
                canary={**CALL, "tool_name": "Execute"},
            ),
            SettingsLayout(
                name="goose", programs=("goose",), folder=".agents", user="plugins/hooklatch/hooks/hooks.json",
                project=".agents/plugins/hooklatch/hooks/hooks.json", measured="1.52.0", strict={"on_failure": "block"},
                canary={**CALL, "event": "PreToolUse", "tool_name": "shell", "tool_call_id": "hooklatch-doctor"},
                fails=BLOCKS,
            ),
        )
    }
)  # fmt: skip


def make_layouts(system: System) -> Mapping[str, SettingsLayout]:
    """Return the settings of each program on a system, by its name."""
    files = MACHINE_FILES[system]
    return MappingProxyType({name: replace(row, system=system, machine=files[name]) for name, row in ROWS.items()})


LAYOUTS: Final = make_layouts(name_system())


def make_handler(
    layout: SettingsLayout, event: str, spec: HostEventSpec, words: list[str], version: Version | None
) -> dict[str, Any]:
    """Return the handler of an event, with nothing in it that the program could do without."""
    # A shell line, not Claude Code's `args`: other programs read its settings too, and would drop the arguments.
    limit = round(spec.limit * 1000) if layout.unit == "ms" else round(spec.limit)
    is_strict = spec.kind == "gate" and (version is None or version >= layout.strict_since)
    return {
        **({"type": "command"} if layout.has_type else {}),
        layout.command: shlex.join(words),
        layout.timeout: limit,
        **({"name": f"hooklatch-{event}"} if layout.names_entries else {}),
        **(layout.strict if is_strict else {}),
    }


def read_version(text: str) -> Version | None:
    """Return the version that a program prints, None if it prints none."""
    match = re.search(r"(?<![\d.])(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number) for number in match.groups() if number is not None) if match else None


def is_known(layout: SettingsLayout, version: Version) -> bool:
    """Return whether the hooks of a version are known to work as described here."""
    return version >= layout.oldest


def format_version(version: Version) -> str:
    return ".".join(map(str, version))

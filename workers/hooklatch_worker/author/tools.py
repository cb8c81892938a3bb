"""The kinds of tools and the canonical keys of their arguments, for tools of any host.

Hosts name the same tool differently (Bash, run_shell_command, bash, Shell), and its keys too (file_path, path,
filePath).  Two keys of a payload are the same for all hosts.  The host's own words stay beside them, unchanged:

    tool_kind   "shell"; hooks match it as they match the name
    tool_args   {"command": "ls"}; an unknown argument keeps its own key

An ambiguous input is refused, since a guard that reads `tool_args` must see what the tool will do.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

TYPE_CHECKING = False  # typing takes a command a sixth of its time
if TYPE_CHECKING:
    from typing import Any, Final, TypeAlias, TypeGuard

__all__ = [
    "ARGUMENTS", "KINDS", "KIND_OF", "OTHER", "UnclearToolError", "arguments", "find_tool_kind_by_name",
    "list_patched_files",
]  # fmt: skip

Arguments: TypeAlias = "dict[str, Any]"

OTHER: Final = "other"  # the kind of an unknown tool
# `mcp` has no names, since a prefix decides, nor has `other`, which is for names that no table has.
KINDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "shell": (
        "Bash", "PowerShell", "Shell", "bash", "powershell", "shell", "exec_command", "local_shell", "unified_exec",
        "run_shell_command", "write_bash", "write_powershell", "write_stdin", "Monitor", "execute_bash",
        "execute_command", "run_in_terminal", "run_terminal_cmd", "run_terminal_command", "shell_command", "monitor",
        "Execute", "launch-process", "run_commands",
    ),
    "read": ("Read", "read", "read_file", "view", "view_image", "NotebookRead"),
    "write": ("Write", "write", "write_file", "create", "write_to_file", "Create", "save-file"),
    "edit": (
        "Edit", "MultiEdit", "NotebookEdit", "edit", "multiedit", "patch", "replace", "apply_patch", "str_replace",
        "insert", "Delete", "replace_in_file", "replace_string_in_file", "notebook_edit", "search_replace",
        "editor", "ApplyPatch", "str-replace-editor",
    ),
    "search": (
        "Grep", "Glob", "LS", "grep", "glob", "list", "ls", "rg", "search_file_content", "grep_search",
        "list_directory", "list_dir", "SemanticSearch", "codesearch", "tree",
        "analyze",
    ),
    "fetch": (
        "WebFetch", "WebSearch", "webfetch", "websearch", "web_fetch", "web_search", "google_web_search", "fetch",
        "fetch_url", "FetchURL", "FetchUrl", "web-fetch", "web-search",
    ),
    "subagent": ("Agent", "Task", "agent", "task", "spawn_agent", "invoke_agent", "spawn_subagent", "delegate",
                 "AgentSwarm"),
}  # fmt: skip
KIND_OF: Final[Mapping[str, str]] = {name: kind for kind, names in KINDS_OF.items() for name in names}
KINDS: Final = frozenset({*KINDS_OF, "mcp", OTHER})

# Our key, and the keys of hosts.  The first of each is also the one that is written back.
KEYS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "shell": {
        "command": ("command", "cmd", "script", "chars", "input"),
        "cwd": ("cwd", "workdir", "directory", "dir_path"),
    },
    "read": {"path": ("path", "file_path", "filePath", "absolute_path", "notebook_path", "target_file")},
    "write": {
        "path": ("path", "file_path", "filePath", "absolute_path", "target_file"),
        "content": ("content", "contents", "file_text", "file_content"),
    },
    "edit": {
        "path": ("path", "file_path", "filePath", "notebook_path", "target_file"),
        "old": ("old", "old_string", "oldString", "old_str", "old_text", "before"),
        "new": ("new", "new_string", "newString", "new_str", "new_source", "new_text", "after"),
        "patch": ("patch", "patchText"),
    },
    "search": {
        "path": ("path", "dir_path", "directory"),
        "pattern": ("pattern", "query", "globPattern", "glob_pattern"),
    },
    "fetch": {"url": ("url",), "prompt": ("prompt",), "query": ("query",)},
    "subagent": {"prompt": ("prompt", "message", "task", "instructions"), "type": ("subagent_type", "agent_type")},
}  # fmt: skip
TYPED: Final = ("chars", "input")  # of these, those that are typed into a terminal
# All keys that `tool_args` may have, for any tool.
ARGUMENTS: Final = frozenset(key for keys in KEYS.values() for key in keys) | {"paths", "server", "tool", "arguments"}
# At least one of these is needed: without it, a guard of that kind would judge nothing.
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "shell": ("command",),
    "read": ("path",),
    "write": ("path",),
    "edit": ("path", "paths"),
    "fetch": ("url", "query", "prompt"),
}
TEXT: Final = frozenset({"path", "content", "old", "new", "url", "patch"})
BEGIN: Final = "*** Begin Patch"
# These patterns are compiled where they are first used: few calls need them, and a command would wait for them.
ENTER: Final = r"(?i)\{(?:enter|return)\}|\r\n?"
# What does something else than to type a letter: Copilot's names of keys, and what terminals send for them.
KEY: Final = (
    r"(?i)\{(?:tab|up|down|left|right|home|end|delete|del|backspace|esc|escape|insert|page_?up|page_?down|f\d+"
    r"|(?:ctrl|control|alt|shift|meta)[-+_ ]?\w+)\}|\x1b(?:[\[O][\d;]*[A-Za-z~])?|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]"
)
INTERRUPT: Final = r"(?i)\A(?:\{(?:ctrl|control)[-+_ ]?[cdu]\}|[\x03\x04\x15])+"
# As the most lenient program reads it: with blanks before it, or none behind the colon.
PATCHED: Final = r"(?im)^[^\S\n]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[^\S\n]*(\S.*?)\s*$"


class UnclearToolError(ValueError):
    """The input of a tool could be read in two ways, or does not say what a tool of its kind does."""


def find_tool_kind_by_name(name: str) -> str:
    """Return the kind of a tool by its name alone; "other" if the name is not known."""
    if name.startswith("mcp__"):
        return "mcp"
    return KIND_OF.get(name, OTHER)


def arguments(kind: str, tool_input: Mapping[str, Any], *, former: Mapping[str, Any] | None = None) -> Arguments:
    """Return the arguments of a call with canonical keys; `former` are those that a rewrite replaces.

    Raises:
        UnclearToolError: two keys say the same thing differently, or the key that matters is missing.
    """
    if kind == "mcp":
        names_of_tool = {key: value for key, value in (former or {}).items() if key in ("server", "tool")}
        return {**names_of_tool, "arguments": dict(tool_input)}
    tool_args: Arguments = dict(tool_input)
    for key, names in KEYS.get(kind, {}).items():
        given = {name: tool_args.pop(name) for name in names if name in tool_args}
        if given:
            tool_args[key] = select_value(kind, key, given)
    if kind == "edit":
        add_paths(tool_args)
    needed = NEEDED.get(kind, ())
    if needed and not any(key in tool_args for key in needed):
        raise UnclearToolError(f"a tool of the kind {kind!r} came without a known {' or '.join(needed)}")
    return tool_args


def select_value(kind: str, key: str, given: Mapping[str, Any]) -> object:
    """Return the one value that several keys agree on."""
    first, *others = given.values()
    if any(type(other) is not type(first) or other != first for other in others):
        raise UnclearToolError(f"{' and '.join(given)} of a {kind} tool differ, and both could be its {key}")
    if kind == "shell" and key == "command":
        is_typed = isinstance(first, str) and not given.keys().isdisjoint(TYPED)
        return typed(join_command(first)) if is_typed else join_command(first)
    if key in TEXT and not isinstance(first, str):
        raise UnclearToolError(f"the {key} of a {kind} tool is not text")
    return first


def typed(text: str) -> str:
    """Return what a terminal reads when this is typed: keys of new lines are new lines, and keys alone are nothing.

    Raises:
        UnclearToolError: keys among the letters change what is read.
    """
    lines = re.sub(ENTER, "\n", re.sub(INTERRUPT, "", text))
    if re.search(KEY, lines) is None:
        return lines
    if re.sub(KEY, "", lines).strip():
        raise UnclearToolError("what is typed has keys that change it, such as tab or backspace, so nobody can read it")
    return "\n"


def join_command(value: object) -> str:
    """Return a command as one line: some programs send an argument list."""
    if isinstance(value, str):
        return value
    words = value if is_list(value) else []
    texts = [word for word in words if isinstance(word, str)]
    if not texts or len(texts) < len(words):
        raise UnclearToolError("the command of a shell tool is neither text nor a list of words")
    return shlex.join(texts)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def add_paths(tool_args: Arguments) -> None:
    """Add `paths`: a patch names its files in its text, and there may be several."""
    if "patch" not in tool_args and BEGIN in str(tool_args.get("command")):
        tool_args["patch"] = join_command(tool_args.pop("command"))
    text = tool_args.get("patch")
    paths = [tool_args["path"]] if "path" in tool_args else []
    if isinstance(text, str):
        paths += [path for path in list_patched_files(text) if path not in paths]
    if paths:
        tool_args["paths"] = paths
    if len(paths) == 1:
        tool_args["path"] = paths[0]
    elif "path" in tool_args and len(paths) > 1:
        del tool_args["path"]  # a guard that looks at one path alone must not miss the others


def list_patched_files(text: str) -> list[str]:
    """Return the files that a patch adds, changes, deletes or moves to, in its order."""
    return re.findall(PATCHED, text)

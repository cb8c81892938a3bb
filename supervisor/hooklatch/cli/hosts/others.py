"""The other hooks on the moments at which hooklatch judges: those that may change an input which it has judged.

A host asks hooklatch and them separately, and runs what one of them has made of the call.  They are found in files:
in the settings of every scope, in those of the machine, in plugins and extensions, and in the head of Claude Code's
skills, agents and commands.  No program is started.
"""

from __future__ import annotations

import getpass
import glob
import hashlib
import json
import os
import plistlib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import unquote
from xml.parsers.expat import ExpatError

from hooklatch.cli.hosts import install_record, settings_files
from hooklatch.cli.hosts.editing import JsoncError, parse_jsonc
from hooklatch.cli.hosts.entries import InstalledHandler, list_handlers
from hooklatch.cli.hosts.layouts import LAYOUTS, SettingsLayout
from hooklatch.cli.hosts.machine_files import SYSTEM_FOLDERS, name_system
from hooklatch.cli.hosts.plugin import is_plugin
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.hosts.text_forms import is_script
from hooklatch.core.light_json import as_object
from hooklatch.guards.gallery.only_guarded_agents import HOOKS_IN_HEAD
from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import Host
from hooklatch.hosts.own_entries import is_entry_alone

__all__ = [
    "RUN_WITH_COMMANDS",
    "TEXT",
    "VARIABLES",
    "Document",
    "Layer",
    "OtherHook",
    "list_other_hooks",
    "list_result_hooks",
    "list_unaccepted",
    "read_document",
    "read_documents",
]

Layer: TypeAlias = Literal["managed", "user", "project", "plugin"]

# Texts that have hooks in their head, which run while the skill, the agent or the command does.
HEADED: Final = ("skills/*/SKILL.md", "agents/**/*.md", "commands/**/*.md")
HEAD: Final = re.compile(r"\A\ufeff?\s*---[^\S\n]*\n(.*?)^---", re.DOTALL | re.MULTILINE)
# The key, also where its letters are written as numbers, which is how one would hide it.
ESCAPED: Final = re.compile(r"\\[xuU]")


# What a word of the table below means: the layer, and the folder that the patterns are in.
BELOW: Final[Mapping[str, tuple[Layer, str]]] = MappingProxyType(
    {
        "user": ("user", "{base}"),  # the host's own folder
        "home": ("user", "{home}"),
        "project": ("project", "{here}"),
        "up": ("project", "{up}"),  # the project, and each folder above it as far as its repository goes
        "root": ("project", "{root}"),  # the last of these
        "main": ("project", "{main}"),  # and, in another worktree of a repository, its first one
        "plugin": ("plugin", "{base}"),
    }
)


def list_places(**names: Sequence[str]) -> tuple[tuple[Layer, str], ...]:
    """Return patterns of files with the layer of each."""
    return tuple((BELOW[word][0], f"{BELOW[word][1]}/{name}") for word, each in names.items() for name in each)


# Where each host reads hooks besides the files of the machine.
PLACES: Final[Mapping[str, tuple[tuple[Layer, str], ...]]] = MappingProxyType(
    {
        "claude-code": list_places(
            user=("settings.json", *HEADED),
            project=(".claude/settings.json", ".claude/settings.local.json"),
            main=(".claude/settings.local.json",),
            up=(*(f".claude/{where}" for where in HEADED),),
        ),
        "codex": list_places(
            user=("hooks.json", "*config.toml"),
            up=(".codex/hooks.json", ".codex/config.toml"),
            plugin=("plugins/**/hooks.json",),
        ),
        "gemini": list_places(
            user=("settings.json",),
            home=(".gemini/.env", ".env"),
            project=(".gemini/settings.json",),
            up=(".gemini/.env", ".env"),
            plugin=("extensions/*/hooks/hooks.json",),
        ),
        "copilot": list_places(
            user=("hooks/*.json", "settings.json", "config.json", "extensions/*/extension.[cm]js", "agents/**/*.md"),
            root=(".github/hooks/*.json", ".github/copilot/settings*.json", ".claude/settings*.json"),
            up=(".github/extensions/*/extension.[cm]js", ".github/agents/**/*.md"),
            plugin=("installed-plugins/**/hooks.json",),
        ),
        "cursor": list_places(user=("hooks.json",), project=(".cursor/hooks.json",)),
        "opencode": list_places(
            user=("plugin*/*.[jt]s", "tool*/*.[jt]s", "opencode.json*"),
            home=(".opencode/plugin*/*.[jt]s", ".opencode/tool*/*.[jt]s", ".opencode/opencode.json*"),
            up=(".opencode/plugin*/*.[jt]s", ".opencode/tool*/*.[jt]s", "opencode.json*", ".opencode/opencode.json*"),
        ),
        "qwen": list_places(
            user=("settings.json",),
            home=(".qwen/.env", ".env"),
            project=(".qwen/settings.json",),
            up=(".qwen/.env", ".env"),
            plugin=("extensions/*/hooks/hooks.json",),
        ),
        "kimi": list_places(user=("config.toml",)),
        "grok": list_places(
            user=("hooks/*.json", "*.toml"),
            home=(".claude/settings*.json", ".cursor/hooks.json"),
            project=(".grok/hooks/*.json", ".claude/settings*.json", ".cursor/hooks.json"),
        ),
        "letta": list_places(user=("settings.json",), project=(".letta/settings.json", ".letta/settings.local.json")),
        "cline": list_places(
            user=("hooks/*",), home=("Documents/Cline/Hooks/*",), project=(".clinerules/hooks/*", ".cline/hooks/*")
        ),
        "auggie": list_places(user=("settings.json",), project=(".augment/settings*.json",)),
        "droid": list_places(
            user=("settings.json", "hooks.json"), project=(".factory/settings.json", ".factory/hooks.json")
        ),
        "goose": list_places(user=("plugins/*/hooks/hooks.json",), project=(".agents/plugins/*/hooks/hooks.json",)),
    }
)
# Kinds of handlers that can refuse at most.
ONLY_JUDGES: Final = frozenset({"prompt", "agent"})
OF_THE_SYSTEM: Final = SYSTEM_FOLDERS[name_system()]
# Keys of a profile's file that say what it is, and the programs whose settings are the other keys as they stand.
PROFILE_KEYS: Final = "Payload"
PLAIN_PROFILES: Final = ("com.anthropic.claudecode.plist", "ai.opencode.managed.plist")
CODE: Final = (".js", ".ts", ".mjs", ".cjs")  # OpenCode's plugins, Copilot's extensions
TEXT: Final = ".md"
PLUGIN_EVENT: Final = "tool.execute.before"
# A tool of OpenCode's own that a plugin has in its place; or a file of that name.
OWN_TOOL: Final = re.compile(r"\btool\b.*\b(?:bash|edit|read|task|write)[\"']?\s*:\s*(?:\w*tool\s*\(|\{)", re.DOTALL)
OWN_TOOL_FILE: Final = re.compile(r"/tools?/(?:bash|edit|read|task|write)\.[jt]s\Z")
PLUGIN_DIRS: Final = "CLAUDE_CODE_PLUGIN_DIRS"
# Variables whose script or program runs before, or in place of, each command; where settings set them, by host.
RUN_WITH_COMMANDS: Final = frozenset(
    {"BASH_ENV", "ENV", "ZDOTDIR", "SHELL", "LD_PRELOAD", "LD_AUDIT"}
    | {"CLAUDE_CODE_SHELL", "CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_ENV_FILE"}
)
VARIABLES: Final = MappingProxyType(
    {"claude-code": ("env",), "codex": ("shell_environment_policy", "set"), "gemini": ("env",), "qwen": ("env",)}
)
VARIABLE: Final = re.compile(r"(?m)^[^\S\n]*(?:export[^\S\n]+)?(\w+)[^\S\n]*[=:][^\S\n]*['\"`]?(.*?)['\"`]?[^\S\n]*$")


@dataclass(frozen=True, slots=True)
class Document:
    """A file in which a host looks for hooks; `fault` is why it cannot be read, and `value` is empty then.

    `project` is the folder for whose sessions it counts; there is none if it counts for all.
    """

    layer: Layer
    path: str
    value: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fault: str = ""
    project: str = ""

    @property
    def is_toml(self) -> bool:
        return self.path.endswith(".toml")


@dataclass(frozen=True, slots=True)
class OtherHook:
    """A hook that is not ours; `digest` is of its settings and of the files that they name.

    `handler` is its place in a file of settings; it has none if it is code in a plugin, in the head of a text, or what
    a variable names (`event` is "env" then).
    """

    document: Document
    event: str
    what: str
    digest: str
    handler: InstalledHandler | None = None

    @property
    def file(self) -> str:
        return self.document.path

    @property
    def is_mod(self) -> bool:
        return self.event == "modules"

    @property
    def title(self) -> str:
        does = "may leave hooklatch out" if self.is_mod else "may change what was judged"
        return f"{self.what} ({self.event} in {self.file}) {does}"


def read_documents(layout: SettingsLayout, environ: Mapping[str, str], here: str) -> list[Document]:
    """Return every file that is there in which a host looks for hooks, the most powerful layer first."""
    base = layout.file("user", environ, here).removesuffix(f"/{layout.user}")
    documents: dict[str, Document] = {}
    machine: list[tuple[Layer, str]] = [("managed", pattern) for pattern in layout.machine.read]
    user = glob.escape(getpass.getuser()) if layout.system == "darwin" else ""
    home = glob.escape(os.path.expanduser("~"))
    upwards = settings_files.list_upwards(here)
    root = upwards[-1]
    folders = {"{up}": upwards, "{root}": [root]}
    if layout.name == "claude-code":
        try:
            folders["{main}"] = [root, settings_files.find_main_worktree(root)]
        except FileError as error:
            documents[str(error)] = Document("project", os.path.join(root, ".git"), fault=str(error), project=root)
    for layer, pattern in [*machine, *PLACES.get(layout.name, ())]:
        for folder in folders.get(pattern.partition("/")[0], [here]):
            project = dict.fromkeys(("here", "up", "root", "main"), glob.escape(folder))
            place = pattern.format(base=glob.escape(base), home=home, user=user, **project)
            for path in sorted(glob.glob(place, recursive=True, include_hidden=True)):
                document = replace(read_document(layer, path), project=folder if layer == "project" else "")
                documents.setdefault(os.path.realpath(path), document)
    found = list(documents.values())
    if layout.name == "copilot":
        for document in list_named_documents(found):
            documents.setdefault(document.fault or os.path.realpath(document.path), document)
    if layout.name == "claude-code":
        for folder in list_plugin_folders(found, environ, base, upwards):
            for path in filter(os.path.lexists, list_plugin_files(folder)):
                documents.setdefault(os.path.realpath(path), read_document("plugin", path))
    return list(documents.values())


def list_named_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield the files of hooks in the folders that a project's settings name, of Copilot CLI."""
    for document in documents:
        named: object = document.value.get("hookDirectories") if document.layer == "project" else None
        for folder in cast("list[object]", named) if isinstance(named, list) else ():
            place = os.path.join(document.project, os.path.expanduser(str(folder)))
            try:
                paths = sorted(glob.glob(f"{glob.escape(place)}/*.json", include_hidden=True))
            except ValueError as error:  # a name that no folder can have
                yield replace(document, value={}, fault=f"hookDirectories has {folder!r}: {error}")
                continue
            for path in paths:
                yield replace(read_document("project", path), project=document.project)


def read_document(layer: Layer, path: str) -> Document:
    try:
        data = settings_files.read_if_present(path) or b""
        if path.endswith(".plist"):
            return read_profile(path, data)
        text = data.decode().removeprefix("\ufeff")
        if path.endswith(".toml"):
            return Document(layer, path, tomllib.loads(text))
        if path.endswith(".env"):
            return Document(layer, path, {"env": dict(VARIABLE.findall(text))})
        if path.endswith(CODE) or is_hook_script(path):
            return Document(layer, path, {"code": text})
        if path.endswith(TEXT):
            head = HEAD.match(text.replace("\r\n", "\n").replace("\r", "\n"))
            return Document(layer, path, {"head": head[1]} if head and HOOKS_IN_HEAD.search(head[1]) else {})
        root = parse_jsonc(text)
    except (FileError, JsoncError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Document(layer, path, fault=str(error) if isinstance(error, FileError) else f"{path}: {error}")
    value: object = root.value if root is not None else {}
    return Document(layer, path, as_object(value))


def read_profile(path: str, data: bytes) -> Document:
    """Return what a profile of the device sets on a Mac; the settings of some programs are packed, and not read."""
    try:
        value: object = plistlib.loads(data)
    except (ExpatError, ValueError, TypeError, AttributeError) as error:
        return Document("managed", path, fault=f"{path}: {error}")
    if not path.endswith(PLAIN_PROFILES):
        return Document("managed", path, fault=f"{path}: a profile of this device sets it, in a form that is not read")
    return Document("managed", path, {k: v for k, v in as_object(value).items() if not k.startswith(PROFILE_KEYS)})


def is_hook_script(path: str) -> bool:
    """Return whether Cline takes a file for the script of an event, with any ending."""
    return os.path.basename(path).partition(".")[0] in find_host("cline").events and not path.endswith(".json")


def list_plugin_folders(
    documents: list[Document], environ: Mapping[str, str], base: str, upwards: list[str]
) -> Iterator[str]:
    """Yield the folders of Claude Code's plugins: enabled ones, those that a variable names, and its own drafts."""
    switches = [pair for each in documents for pair in as_object(each.value.get("enabledPlugins")).items()]
    enabled = {str(name) for name, is_on in switches if is_on is not False}
    off = {str(name) for name, is_on in switches if is_on is False} - enabled
    installed = read_document("plugin", os.path.join(base, "plugins/installed_plugins.json"))
    for name, places in as_object(installed.value.get("plugins")).items():
        for place in cast("list[object]", places) if isinstance(places, list) and name in enabled else ():
            yield str(as_object(place).get("installPath", ""))
    variables = [environ.get(PLUGIN_DIRS), *(as_object(each.value.get("env")).get(PLUGIN_DIRS) for each in documents)]
    for named in variables:
        yield from filter(None, map(str.strip, named.split(os.pathsep) if isinstance(named, str) else ()))
    yield from glob.glob(os.path.join(glob.escape(base), "dev-mods/*/*/"))
    for folder in (base, *(os.path.join(above, ".claude") for above in upwards)):
        for manifest in glob.glob(f"{glob.escape(folder)}/skills/*/.claude-plugin/plugin.json", include_hidden=True):
            plugin = os.path.dirname(os.path.dirname(manifest))  # a folder of skills may have whole plugins
            if f"{read_document('plugin', manifest).value.get('name')}@skills-dir" not in off:
                yield plugin


def list_plugin_files(folder: str) -> Iterator[str]:
    manifest = os.path.join(os.path.expanduser(folder), ".claude-plugin/plugin.json")
    yield os.path.join(os.path.expanduser(folder), "hooks/hooks.json")
    yield manifest
    named: object = read_document("plugin", manifest).value.get("hooks")
    for name in cast("list[object]", named) if isinstance(named, list) else [named]:
        if isinstance(name, str):
            yield os.path.normpath(os.path.join(os.path.expanduser(folder), name))
    for where in HEADED:
        yield from sorted(
            glob.glob(f"{glob.escape(os.path.expanduser(folder))}/{where}", recursive=True, include_hidden=True)
        )


def list_other_hooks(host: Host, documents: list[Document]) -> Iterator[OtherHook]:
    """Yield the hooks that are not ours, on the events at which this host takes a changed input, and mods."""
    if PLUGIN_EVENT in host.events:
        yield from list_other_plugins(documents)
        return
    if host.name == "cline":
        for document in documents:
            is_gate = os.path.basename(document.path).partition(".")[0].lower() == "pretooluse"
            if is_gate and not is_script(str(document.value.get("code", "")).encode()):
                digest = digest_of([host.name, document.path], [document.path])
                yield OtherHook(document, "PreToolUse", "a script", digest)
        return
    moments = {name for name, spec in host.events.items() if spec.kind == "gate" and spec.patch and spec.after is None}
    for document in documents:
        head = str(document.value.get("head", ""))
        named_events = [name for name in sorted(moments) if re.search(rf"\b{name}\b", head)]
        for event in named_events or (["PreToolUse"] if ESCAPED.search(head) else []):
            what = f"a hook in the head of {os.path.basename(document.path)}"
            yield OtherHook(document, event, what, digest_of([host.name, event], [document.path]))
        for handler in list_answering_handlers(document, moments):
            identity = [host.name, handler.event, handler.matcher, handler.handler]
            digest = digest_of(identity, list_named_files(handler.handler, os.path.dirname(document.path)))
            yield OtherHook(document, handler.event, describe(handler.handler), digest, handler)
        yield from list_variables(host, document)
        if "PreToolUse" in str(document.value.get("code", "")):
            yield OtherHook(document, "onPreToolUse", "an extension", digest_of([host.name], [document.path]))
        named: object = document.value.get("modules") or as_object(document.value.get("hooks")).get("modules")
        if modules := cast("list[object]", named) if isinstance(named, list) else []:
            folder = os.path.dirname(document.path)
            root = os.path.dirname(folder) if os.path.basename(folder) in ("hooks", ".claude-plugin") else folder
            files = sorted(path for path in glob.glob(f"{glob.escape(root)}/**", recursive=True, include_hidden=True))
            digest = digest_of([host.name, modules], files)
            names = ", ".join(map(str, modules))
            yield OtherHook(document, "modules", f"the mod {names}", digest)


def list_variables(host: Host, document: Document) -> Iterator[OtherHook]:
    """Yield the variables of settings by which a file runs with each command, unless it is of the system."""
    table: Mapping[str, Any] = document.value if host.name in VARIABLES else {}
    for key in VARIABLES.get(host.name, ()):
        table = as_object(table.get(key))
    for name, value in table.items():
        files = list(list_named_files({"command": value}, "/")) if name in RUN_WITH_COMMANDS else []
        if files:
            digest = digest_of([host.name, name, value], files)
            yield OtherHook(document, "env", f"what {name}={describe({'command': value})} names", digest)


def list_result_hooks(host: Host, documents: Iterable[Document]) -> Iterator[str]:
    """Yield the hooks that are not ours, and may answer with another result after one of ours has changed it."""
    moments = {name for name, spec in host.events.items() if spec.after is not None}
    for document in documents:
        for handler in list_answering_handlers(document, moments):
            yield f"{describe(handler.handler)} ({handler.event} in {document.path})"


def list_answering_handlers(document: Document, moments: Set[str]) -> Iterator[InstalledHandler]:
    """Yield the handlers of a document that are not ours, and whose answer the host waits for at one of these."""
    for handler in list_handlers(as_object(document.value.get("hooks")).items()):
        kind = handler.handler.get("type", "command")
        is_waited_for = handler.handler.get("async") is not True and kind not in ONLY_JUDGES
        if handler.event in moments and handler.handler and is_waited_for and not is_entry_alone(handler.handler):
            yield handler


def list_other_plugins(documents: list[Document]) -> Iterator[OtherHook]:
    """Yield the plugins of OpenCode that are asked before a tool, and are not ours.

    It asks them in no order that is known, and those of its managed settings last.
    """
    for document in documents:
        named: object = document.value.get("plugin")
        for name in cast("list[object]", named) if isinstance(named, list) else ():
            folder = os.path.expanduser(f"~/.cache/opencode/node_modules/{str(name).rpartition('@')[0] or name}")
            files = [unquote(str(name).removeprefix("file://"))] if str(name).startswith(("file://", "/")) else sorted(
                glob.glob(f"{glob.escape(folder)}/**/*.[jt]s", recursive=True, include_hidden=True))  # fmt: skip
            texts = [str(read_document("plugin", path).value.get("code", "")) for path in files if os.path.isfile(path)]
            may_be_asked = not texts or any(PLUGIN_EVENT in text for text in texts)  # what cannot be read may be
            if may_be_asked and not any(is_plugin(text.encode()) for text in texts):
                digest = digest_of([str(name)], files)
                yield OtherHook(document, PLUGIN_EVENT, f"the plugin {name}", digest)
        code = str(document.value.get("code", ""))
        is_asked = PLUGIN_EVENT in code or OWN_TOOL.search(code) or OWN_TOOL_FILE.search(document.path)
        if is_asked and not is_plugin(code.encode()):
            digest = digest_of([os.path.basename(document.path)], [document.path])
            yield OtherHook(document, PLUGIN_EVENT if PLUGIN_EVENT in code else "tool", "a plugin", digest)


def list_unaccepted(name: str, environ: Mapping[str, str], here: str) -> list[OtherHook]:
    """Return the other hooks of a host that the operator has not accepted.

    Raises:
        FileError: the record of what was accepted cannot be read.
    """
    accepted = install_record.list_accepted(environ)
    others = list_other_hooks(find_host(name), read_documents(LAYOUTS[name], environ, here))
    return [other for other in others if other.digest not in accepted]


def describe(handler: Mapping[str, Any]) -> str:
    """Return what a handler starts or asks, short enough for a line."""
    line = next((str(handler[key]) for key in ("command", "bash", "url", "tool") if handler.get(key)), "a hook")
    return line if len(line) <= 100 else f"{line[:100]}..."


def list_named_files(handler: Mapping[str, Any], folder: str) -> Iterator[str]:
    """Yield the files that a handler's command names, except for those of the system."""
    for key in ("command", "bash"):
        line = handler.get(key)
        try:
            words = shlex.split(line) if isinstance(line, str) else []
        except ValueError:
            words = []
        arguments: object = handler.get("args")
        for word in [*words, *(cast("list[object]", arguments) if isinstance(arguments, list) else ())]:
            path = os.path.join(folder, os.path.expanduser(os.path.expandvars(str(word))))
            if not path.startswith(OF_THE_SYSTEM):
                yield path


def digest_of(identity: object, files: Iterable[str]) -> str:
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode())
    for path in files:
        if os.path.isfile(path):
            try:
                data = settings_files.read_if_present(path)
            except FileError as error:  # too large: what is accepted is its size then, and its time
                status = os.stat(path)
                data = f"{error} {status.st_size} {status.st_mtime_ns}".encode()
            digest.update(hashlib.sha256(data or b"").digest())
    return digest.hexdigest()[:16]

"""The settings that a host really uses: the layer that our entries are in, and what leaves them out.

An agent takes settings from several files, from its command line and from its environment.  A switch in a file without
our entries, or an option of an agent that runs now, leaves hooks out as well as one beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, cast

from hooklatch.cli.hosts.codex_trust import TERMINALS
from hooklatch.cli.hosts.entries import list_handlers
from hooklatch.cli.hosts.layouts import SettingsLayout
from hooklatch.cli.hosts.managed import SECURE_MODS
from hooklatch.cli.hosts.others import RUN_WITH_COMMANDS, VARIABLES, Document, Layer, OtherHook
from hooklatch.cli.hosts.programs import find_program
from hooklatch.core.light_json import as_object
from hooklatch.guards.gallery.only_guarded_agents import AGENTS, Agent, find_served, list_flags
from hooklatch.hosts.host import Host

__all__ = ["SERVICE", "EffectiveSettings", "LayerFinding", "judge_layers", "list_running_agents"]

# What no file shows: hooks are off in Auggie until its service says otherwise.
SERVICE: Final = "Augment's service, which has hooks on for some accounts only (where Auggie has no /hooks, none runs)"

# What can leave the entries of a user's or a project's settings out, by host.
LEFT_OUT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "claude-code": "a plugin with a mod, a flag such as --bare, a variable",
        "codex": "a setting such as -c features.hooks=false, CODEX_HOME",
        "gemini": "hooksConfig in other settings, GEMINI_CLI_HOME",
        "copilot": "disableAllHooks in a project's settings, disabledHooks, COPILOT_HOME",
        "cursor": "who edits that file",
        "opencode": "--pure, a variable such as OPENCODE_CONFIG_DIR",
        "qwen": "a flag such as --bare, a variable",
        "kimi": "KIMI_CODE_HOME",
        "grok": "/hooks, which turns one off, GROK_HOME",
        "letta": "hooks.disabled in other settings, HOME",
        "cline": "--config, which names another folder",
        "auggie": f"{SERVICE}, --augment-cache-dir, HOME",
        "droid": "hooks.json beside that file, hooksDisabled in other settings, FACTORY_HOME_OVERRIDE",
        "goose": "`goose plugin disable`, HOME",
    }
)
# What can leave managed entries out.
MANAGED_LEFT_OUT_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gemini": "GEMINI_CLI_SYSTEM_SETTINGS_PATH in the environment of an agent, which names another file",
        "auggie": SERVICE,
        "qwen": "QWEN_CODE_SYSTEM_SETTINGS_PATH in the environment of an agent, which names another file",
        "opencode": "--pure, and OPENCODE_TEST_MANAGED_CONFIG_DIR in the environment of an agent",
    }
)
# Programs whose managed settings may keep hooks of users and projects out (strictPluginOnlyCustomization).
CUSTOMIZED: Final = ("claude-code", "copilot")
# The key among the hooks that turns all of them off.
OFF: Final = MappingProxyType({"letta": "disabled", "droid": "hooksDisabled"})
# Variables that move nothing that hooks are in, although they look like those that do.
HARMLESS: Final = ("CLAUDE_CODE_MAX*",)
# Those by which an entry finds its daemon, which settings may give it.
OF_ENTRIES: Final = ("HOOKLATCH_*", "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")


@dataclass(frozen=True, slots=True)
class LayerFinding:
    """A consequence of all the settings for our entries."""

    what: str
    do: str
    is_problem: bool = True


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The documents of a host, and the layers that our entries are in."""

    host: Host
    layout: SettingsLayout
    documents: Sequence[Document]
    layers: frozenset[Layer]

    @property
    def is_managed(self) -> bool:
        return "managed" in self.layers

    @property
    def turns_others_off(self) -> bool:
        """Return whether hooks of users and projects are off."""
        return self.is_off("user")

    def is_off(self, layer: Layer) -> bool:
        """Return whether managed settings turn the hooks of a layer off."""
        key = "allow_managed_hooks_only" if self.layout.managed.endswith(".toml") else "allowManagedHooksOnly"
        beside = self.layout.machine.beside
        tables = [each.value for each in self.documents if each.layer == "managed" and beside in ("", each.path)]
        is_locked = self.layout.name in CUSTOMIZED and layer != "plugin" and any(map(is_hooks_locked, tables))
        return layer != "managed" and (is_locked or any(table.get(key) is True for table in tables))

    @property
    def mods(self) -> str:
        """Return what becomes of Claude Code's mods: "run", "guarded" (its own guard is seated), or "off"."""
        managed = [each for each in self.documents if each.layer == "managed" and each.value]
        options = [as_object(as_object(as_object(each.value.get("pluginConfigs")).get(SECURE_MODS)).get("options"))
                   for each in managed]  # fmt: skip
        if any(each.get("allowManagedModsOnly") not in (None, False) for each in options):
            return "off"
        return "guarded" if managed else "run"

    def is_in_force(self, other: OtherHook) -> bool:
        """Return whether another hook runs."""
        if other.document.layer == "managed" or other.event in ("env", "tool"):
            return True
        if self.layout.is_plugin:
            return not self.is_managed  # it asks managed plugins last
        return self.mods == "run" if other.is_mod else not self.is_off(other.document.layer)


def is_hooks_locked(settings: Mapping[str, Any]) -> bool:
    """Return whether hooks come from managed settings and plugins alone; a value of another kind locks all."""
    locked: object = settings.get("strictPluginOnlyCustomization")
    return locked not in (None, False) and (not isinstance(locked, list) or "hooks" in locked)


def judge_layers(settings: EffectiveSettings) -> Iterator[LayerFinding]:
    """Yield what leaves our entries out now, and what can."""
    yield from judge_switches(settings)
    yield from judge_agents(settings)
    if settings.layout.name == "codex":
        yield from judge_terminals(settings)
    if not settings.layout.machine.is_known:
        what = f"{settings.layout.managed_fault}, so hooks there are not seen"
        yield LayerFinding(what, "ask its vendor where they are, and look there", is_problem=False)
    yield judge_layer(settings)


def judge_terminals(settings: EffectiveSettings) -> Iterator[LayerFinding]:
    """Yield whether Codex gives its model terminals: what is written to one is reported to no hook."""
    tables = [(each.layer, as_object(each.value.get("features"))) for each in settings.documents if each.is_toml]
    terminals = [(layer, table[TERMINALS]) for layer, table in tables if TERMINALS in table]
    values = [value for _, value in terminals]
    if ("managed", False) in terminals or (False in values and True not in values):
        return
    what = "what its model writes to a command in a terminal (write_stdin) is reported to no hook, and runs unjudged"
    do = f"hooklatch install codex --trust, or {TERMINALS} = false below [features] in its config.toml"
    yield LayerFinding(what, do, is_problem=find_program(settings.layout, None, os.environ) is not None)


def judge_layer(settings: EffectiveSettings) -> LayerFinding:
    """Return the layer that our entries are in, and what can leave it out."""
    name = settings.layout.name
    seat = {"run": "is not seated", "guarded": "is seated", "off": "lets managed mods in alone"}[settings.mods]
    guard = f"; its own guard of mods {seat}" if name == "claude-code" else ""
    if settings.is_managed:
        agent = find_agent(name)
        served = [f"{settings.layout.programs[0]} {each}" for each in (agent.serving if agent is not None else ())]
        ways = [MANAGED_LEFT_OUT_BY.get(name), f"clients of {' and of '.join(served)}" if served else None]
        can = f"; what can leave them out: {'; '.join(filter(None, ways))}" if any(ways) else ""
        alone = "" if settings.turns_others_off else "; hooks of other layers run beside them"
        what = f"its entries are in the managed layer ({settings.layout.managed}){alone}{can}{guard}"
        return LayerFinding(what, "nothing, as long as you mean it", is_problem=False)
    layer = " and the ".join(sorted(settings.layers))
    fails = f"; where an entry is killed or late, {settings.layout.fails}" if settings.layout.fails else ""
    what = f"its entries are in the {layer} settings; what can leave them out: {LEFT_OUT_BY[name]}{guard}{fails}"
    fault = settings.layout.managed_fault
    do = f"nothing: {fault}" if fault else f"as root: hooklatch install {name} --managed"
    return LayerFinding(what, do, is_problem=False)


def judge_switches(settings: EffectiveSettings) -> Iterator[LayerFinding]:
    """Yield the settings of any file that keep our entries from running."""
    name = settings.layout.name
    if settings.turns_others_off and not settings.is_managed:
        what = "DEAD: managed settings let managed hooks alone run, and its entries are not among them"
        yield LayerFinding(what, f"as root: hooklatch install {name} --managed")
    for document in settings.documents:
        if settings.is_managed and document.layer != "managed":
            continue  # what a user switches off, managed entries are not
        value, remedy = document.value, f"take that out of {document.path}"
        if value.get("disableAllHooks") is True and name in ("claude-code", "copilot", "qwen"):
            yield from judge_disabled(settings, document, remedy)
        if name == "copilot" and document.layer == "user" and (value.get("disabledHooks") or []) != []:
            what = f"{document.path} turns hooks off by their digests (disabledHooks), and one may be its entry"
            yield LayerFinding(what, "start Copilot CLI, type /hooks, and turn hooklatch's on")
        hooks_config = as_object(value.get("hooksConfig")) if name in ("gemini", "qwen") else {}
        if hooks_config.get("enabled") is False:
            yield LayerFinding(f"DEAD: {document.path} turns hooks off (hooksConfig.enabled)", remedy)
        disabled: object = hooks_config.get("disabled")
        names = cast("list[object]", disabled) if isinstance(disabled, list) else []
        if off := [str(each) for each in names if str(each).startswith("hooklatch")]:
            yield LayerFinding(f"DEAD: {document.path} turns off {', '.join(off)} (hooksConfig.disabled)", remedy)
        if name == "codex" and document.is_toml and as_object(value.get("features")).get("hooks") is False:
            yield LayerFinding(f"DEAD: {document.path} turns hooks off ([features] hooks)", remedy)
        hooks = value if document.path.endswith("/hooks.json") else as_object(value.get("hooks"))
        if name in OFF and hooks.get(OFF[name]) is True:
            yield LayerFinding(f"DEAD: {document.path} says {OFF[name]}: no hook runs", remedy)
        if name == "droid" and hooks is value and settings.layout.gate in hooks:
            yield LayerFinding(f"DEAD: Droid reads {document.path} and leaves out the hooks of settings.json", remedy)
        for variable, text in as_object(value.get("env")).items():
            # Other hosts have read where their settings are before they read variables.
            is_way = name == "claude-code" and is_leaving_out(str(variable), name) and variable not in RUN_WITH_COMMANDS
            is_way = is_way or any(fnmatchcase(str(variable), pattern) for pattern in OF_ENTRIES)
            if name in VARIABLES and is_way and text not in ("", "0", "false"):
                yield LayerFinding(f"{document.path} sets {variable}, which can leave its entries out", remedy)


def judge_disabled(settings: EffectiveSettings, document: Document, remedy: str) -> Iterator[LayerFinding]:
    """Yield whether a file's `disableAllHooks` counts.

    Copilot CLI was seen to heed it in a file of hooks, for that file alone, and in a project's settings, where their
    folder is trusted: not in the settings of the user and of the machine.
    """
    what, counts = f"DEAD: {document.path} says disableAllHooks: none of its hooks runs", True
    if settings.layout.name == "copilot":
        folder, name = os.path.split(document.path)
        is_settings = name.startswith("settings") and os.path.basename(folder) != "hooks"
        own = (each.words for each in list_handlers(as_object(document.value.get("hooks")).items()))
        if not (document.layer == "project" if is_settings else any(own)):
            return
        counts = not is_settings or is_trusted(settings.documents, document.project)
        what = what if counts else f"{document.path} says disableAllHooks, which counts once you trust that folder"
    yield LayerFinding(what, remedy, is_problem=counts)


def is_trusted(documents: Iterable[Document], folder: str) -> bool:
    """Return whether Copilot CLI trusts a folder, or one above it."""
    lists: list[object] = [each.value.get("trustedFolders") for each in documents if each.layer == "user"]
    folders = [each for found in lists if isinstance(found, list) for each in cast("list[object]", found)]
    real = f"{os.path.realpath(folder)}/"
    return any(isinstance(each, str) and real.startswith(f"{resolve(each).rstrip('/')}/") for each in folders)


def resolve(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a name that no folder can have
        return path


def judge_agents(settings: EffectiveSettings) -> Iterator[LayerFinding]:
    """Yield the agents that run now with a flag or a variable that leaves our entries out."""
    is_left_out = not settings.is_managed or settings.layout.name in MANAGED_LEFT_OUT_BY
    for pid, ways, served in list_running_agents(settings.layout):
        if ways and is_left_out:
            what = f"process {pid} runs with {', '.join(ways)}, which can leave its entries out"
            yield LayerFinding(what, "start that agent anew without it")
        if served is not None:
            what = f"process {pid} is {served}: what its clients have it run by themselves asks no guard"
            yield LayerFinding(what, "see whose it is, and end it if no person started it", is_problem=False)


def list_running_agents(layout: SettingsLayout) -> Iterator[tuple[int, list[str], str | None]]:
    """Yield the processes of this host, as far as shown: such flags and variables of each, and how it serves tools."""
    import psutil  # knows where each system has this

    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except (psutil.Error, OSError):  # it has ended, or is another user's
            continue
        # A program in JavaScript is the second word, behind its interpreter.
        at = next((at for at, word in enumerate(words[:2], 1) if os.path.basename(word) in layout.programs), None)
        if at is None:
            continue
        agent = find_agent(layout.name)
        flags = list_flags(agent, words) if agent is not None else ()
        served = find_served(agent, words[at:]) if agent is not None else None
        try:
            variables = list(process.environ())
        except (psutil.Error, OSError):
            variables = list[str]()
        own = set(os.environ)  # what this terminal has too was there when the operator installed
        found = [*flags, *(each for each in variables if each not in own and is_leaving_out(each, layout.name))]
        yield process.pid, found, None if served is None else f"{layout.programs[0]} {served}"


def find_agent(name: str) -> Agent | None:
    return next((agent for agent in AGENTS if {name, f"{name}-agent"} & {*agent.names}), None)


def is_leaving_out(variable: str, name: str) -> bool:
    agent = find_agent(name)
    is_listed = agent is not None and any(fnmatchcase(variable, pattern) for pattern in agent.variables)
    return is_listed and not any(fnmatchcase(variable, pattern) for pattern in HARMLESS)

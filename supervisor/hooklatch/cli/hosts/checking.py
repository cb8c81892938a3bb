"""What `doctor` finds out about the programs that hooklatch is installed for.

It reads their real settings, finds our entries there, and starts exactly these command lines as the program would: with
a canary, which has to come back refused by the daemon, and once more with nobody listening, which has to be a refusal
too.  Changes nothing; prints nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from hooklatch.cli.hosts import codex_trust, plugin_trial
from hooklatch.cli.hosts.install import describe_unread_part, list_settings_files
from hooklatch.cli.hosts.programs import LateError, ProgramExit, find_program, read_program_version, run_host_program
from hooklatch.entry.commands import make_entry_command
from hooklatch.entry.starting import read_start_environment
from hooklatch.errors import locate_error
from hooklatch.hosts import canary
from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import Host
from hooklatch.install import files, record
from hooklatch.install.entries import InstalledHandler, find_entries
from hooklatch.install.files import FileError
from hooklatch.install.jsonc import JsoncError, parse_jsonc
from hooklatch.install.layouts import LAYOUTS, ON_FAILURE, SettingsLayout
from hooklatch.install.plugin import is_plugin
from hooklatch.install.refusing import is_refusal

__all__ = ["SettingsFileCheck", "HostFinding", "check_hosts"]

LIMIT = 30.0  # seconds; an entry gives up on a daemon that is silent after ten


@dataclass(frozen=True, slots=True)
class HostFinding:
    """What is wrong, and what to do about it."""

    what: str
    do: str
    is_problem: bool = True


@dataclass(slots=True)
class SettingsFileCheck:
    """One file of settings with our entries: what was tried, and what came of it."""

    host: str
    title: str
    file: str
    events: list[str] = field(default_factory=list[str])
    canonical: set[str] = field(default_factory=set[str])
    canary: str = "not tried"
    without_daemon: str = "not tried"
    findings: list[HostFinding] = field(default_factory=list[HostFinding])

    def wrong(self, what: str, do: str, *, is_problem: bool = True) -> None:
        self.findings.append(HostFinding(f"{self.title}: {what}", do, is_problem))


def check_hosts() -> list[SettingsFileCheck]:
    """Return what is found in the settings of every program, those of this folder's project included."""
    found = [checked for layout in LAYOUTS.values() for path in list_settings_files(layout, user=False, project=False)
            if (checked := check_file(find_host(layout.name), layout, path)) is not None]  # fmt: skip
    check_twice(found)
    return found


def check_twice(found: list[SettingsFileCheck]) -> None:
    """Report programs that ask twice, since both their user's and a project's settings have entries."""
    for number, one in enumerate(found):
        before = [other.file for other in found[:number] if other.host == one.host and other.events]
        if before and one.events and one.host != "claude-code":  # which runs a handler once, however often it is there
            what = f"{one.file} and {before[0]} both have its entries, so each event asks twice"
            one.wrong(what, f"hooklatch uninstall {one.host} --project", is_problem=False)


def check_file(host: Host, layout: SettingsLayout, path: str) -> SettingsFileCheck | None:
    checked = SettingsFileCheck(layout.name, host.title, path)
    again = f"hooklatch install {layout.name}"
    try:
        data = files.read_if_present(path)
    except FileError as error:
        checked.wrong(f"{error}, so nothing is known of its hooks", "make it readable, then: hooklatch doctor")
        return checked
    if data is None:
        return None
    if layout.is_plugin:
        if not is_plugin(data):
            return None
        if is_own(layout, path) or is_unchanged(path, data):
            return check_plugin(checked, layout, data)
        refuse_to_start(checked, again)
        return checked
    text = data.decode(errors="replace").removeprefix("\ufeff")
    try:
        found = list(find_entries(text))
    except JsoncError as error:
        if "hooklatch" not in text:
            return None
        what = f"{path}:{error.line}:{error.column}: {error.what}; a file that cannot be read has no hooks"
        checked.wrong(what, "mend it, then: hooklatch doctor")
        return checked
    if not found:
        return None
    if (fault := describe_unread_part(host, layout, path, data)) is not None:
        is_sure = layout.has_comments is not None
        checked.wrong(
            f"{'DEAD: ' if is_sure else ''}{fault}", "take it out, then: hooklatch doctor", is_problem=is_sure
        )
    checked.events = [one.event for one in found]
    checked.canonical = {host.events[one.event].event for one in found if one.event in host.events}
    check_entries(checked, host, layout, found, again)
    check_switches(checked, layout, text)
    gates = [one for one in found if one.event == layout.gate and one.matcher in (None, "", "*")]
    if not gates:
        checked.wrong(f"{path} has no entry for {layout.gate}: tool calls are not guarded", again)
    for gate in gates[:1]:
        if is_own(layout, path) or is_ours(str(gate.handler[layout.command]), gate.words):
            try_gate(checked, layout, gate, again)
        else:
            refuse_to_start(checked, again)
    if layout.name == "codex":
        check_trust(checked, layout)
    return checked


def is_own(layout: SettingsLayout, path: str) -> bool:
    """Say whether a file is the person's own: what it starts, every session of the agent starts too."""
    return path == layout.file("user", os.environ, "")


def is_ours(line: str, words: tuple[str, ...]) -> bool:
    """Say whether a line starts this installation's entry and nothing else, however it came into a project."""
    program = make_entry_command("HOST", "EVENT", "gate", 1.0)
    count = program.index("HOST")
    return shlex.join(words) == line.strip() and list(words[:count]) == program[:count]


def is_unchanged(path: str, data: bytes) -> bool:
    known = record.list_installed(os.environ).get(path)
    return known is not None and known.digest == record.digest_bytes(data)


def refuse_to_start(checked: SettingsFileCheck, again: str) -> None:
    # A project may come from anywhere, and looking at it must not run what it holds.
    what = f"{checked.file} starts something other than this installation's entry, so it was not tried"
    checked.wrong(what, f"look at it; if it is hooklatch's, write it anew: {again} --project")


def check_entries(
    checked: SettingsFileCheck, host: Host, layout: SettingsLayout, found: list[InstalledHandler], again: str
) -> None:
    check_start(checked, [one.words for one in found])
    gone = sorted({word for one in found for word in one.words if os.path.isabs(word) and is_gone(word, one.words)})
    if gone:
        checked.wrong(f"{checked.file} starts {', '.join(gone)}, which is gone", again)
    twice = sorted({event for event in checked.events if checked.events.count(event) > 1})
    if twice:
        what = f"{checked.file} has more than one entry for {', '.join(twice)}: each asks again"
        checked.wrong(what, again, is_problem=False)
    for one in found:
        spec = host.events.get(one.event)
        kind = one.words[one.words.index("--kind") + 1 :][:1]
        if spec is not None and spec.kind == "gate" and kind and kind[0] in ("context", "notify"):
            checked.wrong(f"the entry for {one.event} is no gate, so a failure lets everything through", again)
        if one.event not in one.words:
            checked.wrong(f"the entry for {one.event} is another event's, so it refuses everything", again)
    silent = [event for event in checked.events if event not in host.events]
    if silent:
        what = f"it never fires {', '.join(silent)}, which {checked.file} has entries for"
        checked.wrong(what, again, is_problem=False)
    missing = [
        event for event, spec in host.events.items()
        if spec.kind == "gate" and spec.event and not spec.alters_host and not layout.skip(event)
        and event not in checked.events and event != layout.gate
    ]  # fmt: skip
    if missing:
        checked.wrong(f"{checked.file} has no entry for {', '.join(missing)}", again, is_problem=False)


def is_gone(word: str, words: tuple[str, ...]) -> bool:
    is_pin = words[words.index(word) - 1] in ("--runtime-dir", "--config", "--state-dir")
    return not is_pin and not os.path.exists(word)


def check_start(checked: SettingsFileCheck, commands: Iterable[Sequence[str]]) -> None:
    """Report what keeps entries from starting the daemon that the operator means, or lets them start another."""
    again = f"hooklatch install {checked.host} --start"
    words = next((words for words in commands if "--start" in words), None)
    if words is None:
        return
    pins = dict(pairwise(words))
    config, state = pins.get("--config"), pins.get("--state-dir")
    if config is None or state is None or "--runtime-dir" not in pins:
        what = f"{checked.file} starts a daemon with the hooks and the state that the agent's environment names"
        checked.wrong(what, f"an older version has written it; write it anew: {again}")
        return
    if not os.path.exists(config):
        checked.wrong(f"its entries cannot start a daemon: there is no {config}", "hooklatch init, or mend the path")
    try:
        read_start_environment(state)
    except (OSError, ValueError) as error:
        checked.wrong(f"its entries cannot start a daemon: {locate_error(error)}", again)


def check_switches(checked: SettingsFileCheck, layout: SettingsLayout, text: str) -> None:
    """Report settings that leave hooks out, as far as this file has them."""
    root = parse_jsonc(text)
    settings = read_table(root.value if root is not None else None)
    if settings.get("disableAllHooks") is True:
        checked.wrong(f"{checked.file} says disableAllHooks: none of its hooks runs", "take that line out")
    of_hooks = read_table(settings.get("hooksConfig"))
    if of_hooks.get("enabled") is False:
        checked.wrong(f"{checked.file} turns hooks off (hooksConfig.enabled)", "take that line out")
    disabled = of_hooks.get("disabled")
    names = cast("list[object]", disabled) if isinstance(disabled, list) else []
    if off := [str(name) for name in names if str(name).startswith("hooklatch")]:
        checked.wrong(f"{checked.file} turns off {', '.join(off)}", "take them out of hooksConfig.disabled")
    if layout.name == "claude-code":
        bare = [
            entry.event
            for entry in find_entries(text)
            if entry.event == layout.gate and "onFailure" not in entry.handler
        ]
        program = find_program(layout, None, os.environ) if bare else None
        version = read_program_version(program, os.environ)[0] if program is not None else None
        if version is not None and version >= ON_FAILURE:
            what = "the entry for PreToolUse lets a call go on if it is killed, and this version could refuse"
            checked.wrong(what, "hooklatch install claude-code", is_problem=False)


def read_table(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def check_trust(checked: SettingsFileCheck, layout: SettingsLayout) -> None:
    program = find_program(layout, None, os.environ)
    if program is None:
        checked.wrong("codex is not on the PATH, so it is unknown whether it trusts its entries", codex_trust.BY_HAND,
                      is_problem=False)  # fmt: skip
        return
    try:
        found = codex_trust.list_codex_hooks(program, checked.file, os.environ)
    except codex_trust.CodexUnansweredError as error:
        checked.wrong(f"it is unknown whether the entries are trusted: {error}", codex_trust.BY_HAND)
        return
    if not found:
        what = f"it does not see the entries in {checked.file}, so none of them runs"
        checked.wrong(what, "trust the project in Codex, and take hooks = false out of [features]")
    if waiting := codex_trust.list_untrusted(found):
        checked.wrong(f"{len(waiting)} of its entries are not trusted: it leaves them out without a word",
                      codex_trust.BY_HAND)  # fmt: skip
    off = [str(one.get("eventName")) for one in found if one.get("enabled") is False]
    if off:
        checked.wrong(f"its entries for {', '.join(off)} are turned off", "start Codex, type /hooks, and turn them on")


def try_gate(checked: SettingsFileCheck, layout: SettingsLayout, gate: InstalledHandler, again: str) -> None:
    """Start an entry twice: as the program does, and where nobody listens."""
    line = str(gate.handler[layout.command])
    nonce = secrets.token_hex(16)
    document = make_canary_document(layout, nonce)
    try:
        done = run_host_program(["/bin/sh", "-c", line], limit=LIMIT, stdin=document, environ=os.environ)
    except (OSError, LateError) as error:
        checked.canary = f"FAILED: {locate_error(error)}"
        checked.wrong(f"DEAD: the entry in {checked.file} does not answer: {locate_error(error)}", again)
    else:
        judge_canary(checked, layout, done, nonce)
    with tempfile.TemporaryDirectory(prefix="hooklatch-") as folder:
        try:
            alone = run_host_program(
                ["/bin/sh", "-c", aim_elsewhere(gate.words, folder)], limit=LIMIT, stdin=document, environ=os.environ
            )
        except (OSError, LateError) as error:
            checked.without_daemon = f"FAILED: {locate_error(error)}"
            checked.wrong(f"DEAD: without a daemon the entry does not answer: {locate_error(error)}", again)
            return
    if is_refusal(layout.name, alone.exit_code, alone.stdout, alone.stderr):
        checked.without_daemon = "refused"
        return
    checked.without_daemon = "NOT REFUSED"
    checked.wrong(f"DEAD: without a daemon a tool call would go on ({format_exit(alone)})", again)


def judge_canary(checked: SettingsFileCheck, layout: SettingsLayout, done: ProgramExit, nonce: str) -> None:
    is_refused = is_refusal(layout.name, done.exit_code, done.stdout, done.stderr)
    if is_refused and nonce.encode() in done.stdout + done.stderr:
        checked.canary = "refused by the daemon"
    elif is_refused:
        checked.canary = "refused, but not by the daemon"
        checked.wrong(
            f"DEAD: every tool call is refused, since no daemon answers the entry in {checked.file} "
            f"({format_exit(done)})",
            "hooklatch serve --detach; if it runs elsewhere, install again with --runtime-dir",
        )
    else:
        checked.canary = "NOT REFUSED"
        checked.wrong(
            f"DEAD: a call that has to be refused went through {checked.file} ({format_exit(done)})",
            f"hooklatch install {layout.name}, then: hooklatch doctor",
        )


def make_canary_document(layout: SettingsLayout, nonce: str) -> bytes:
    # Copilot's camelCase documents do not name their event, and the others do not mind.
    name = {} if layout.name == "copilot" else {"hook_event_name": layout.gate}
    here: Mapping[str, str] = {"cwd": os.getcwd()}
    return json.dumps({**name, **here, **layout.canary, canary.KEY: nonce}).encode()


def aim_elsewhere(words: tuple[str, ...], folder: str) -> str:
    """Return the command line with a runtime folder in which nobody listens, and without starting a daemon."""
    kept = list(aim_words_elsewhere(words))
    return shlex.join([*kept, "--runtime-dir", folder])


def aim_words_elsewhere(words: tuple[str, ...]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word == "--runtime-dir":
            next(rest, None)
        elif word != "--start":
            yield word


def format_exit(done: ProgramExit) -> str:
    said = (done.stdout or done.stderr).decode(errors="replace").strip()
    return f"exit code {done.exit_code}, {said[:200]!r}" if said else f"exit code {done.exit_code}, no text"


def check_plugin(checked: SettingsFileCheck, layout: SettingsLayout, data: bytes) -> SettingsFileCheck:
    host = find_host(layout.name)
    checked.events = [event for event in host.events if f'"{event}"'.encode() in data]
    checked.canonical = {host.events[event].event for event in checked.events} - {""}
    nonce = secrets.token_hex(16)
    try:
        check_start(checked, plugin_trial.list_plugin_commands(data.decode()).values())
        with tempfile.TemporaryDirectory(prefix="hooklatch-") as folder:
            said = plugin_trial.try_plugin(data.decode(), {canary.KEY: nonce}, folder)
            nobody = os.path.join(folder, "nobody")
            os.mkdir(nobody)
            alone = plugin_trial.try_plugin(
                plugin_trial.rewrite_commands(data.decode(),
                lambda words: [*aim_words_elsewhere(words), "--runtime-dir", nobody]),
                {canary.KEY: nonce}, folder,
            )  # fmt: skip
    except plugin_trial.NoRuntimeError as error:
        checked.wrong(f"{checked.file} cannot be tried: {error}", "install node or bun", is_problem=False)
        return checked
    except (OSError, LateError, plugin_trial.TrialError) as error:
        checked.wrong(f"DEAD: {checked.file} cannot be run: {locate_error(error)}", f"hooklatch install {layout.name}")
        return checked
    is_refused, text = said
    if is_refused and nonce in text:
        checked.canary = "refused by the daemon"
    elif is_refused:
        checked.canary = "refused, but not by the daemon"
        checked.wrong(f"DEAD: every tool call is refused, since no daemon answers ({text[:200]})",
                      "hooklatch serve --detach; if it runs elsewhere, install again with --runtime-dir")  # fmt: skip
    else:
        checked.canary = "NOT REFUSED"
        checked.wrong(
            f"DEAD: a call that has to be refused went through {checked.file}", f"hooklatch install {layout.name}"
        )
    checked.without_daemon = "refused" if alone[0] else "NOT REFUSED"
    if not alone[0]:
        checked.wrong("DEAD: without a daemon a tool call would go on", f"hooklatch install {layout.name}")
    return checked

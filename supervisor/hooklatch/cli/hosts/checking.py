"""The checks of `doctor` on the hosts that hooklatch is installed for.

They read a host's real settings, find the entries of hooklatch there, and start exactly these command lines as the host
would.  One run has a canary, which the daemon must refuse.  The other one has no daemon, which must be a refusal too.

Whether an output is a refusal is deliberately not asked of an adapter: `is_refusal` has what the hosts were measured to
honour, so that an adapter, a forwarder or a setting that is wrong is found.
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
from typing import Any, Final, Literal, cast

from hooklatch.cli.hosts import adopting, codex_trust, effective, install_record, managed, plugin, settings_files
from hooklatch.cli.hosts.editing import JsoncError
from hooklatch.cli.hosts.entries import InstalledHandler, find_entries, list_flat_handlers, list_handlers
from hooklatch.cli.hosts.install import list_settings_files
from hooklatch.cli.hosts.layouts import LAYOUTS, SettingsLayout
from hooklatch.cli.hosts.others import Layer, list_other_hooks, list_result_hooks, read_document, read_documents
from hooklatch.cli.hosts.plugin import is_plugin
from hooklatch.cli.hosts.programs import LateError, ProgramExit, find_program, read_program_version, run_host_program
from hooklatch.cli.hosts.settings_files import FileError
from hooklatch.cli.hosts.text_forms import find_script_entry, is_script
from hooklatch.core.light_json import as_object
from hooklatch.entry.building import program_path, read_shipped
from hooklatch.entry.commands import is_python_form, python_form
from hooklatch.entry.starting import read_start_environment
from hooklatch.errors import locate_error
from hooklatch.hosts import canary
from hooklatch.hosts.find import find_host
from hooklatch.hosts.host import Host
from hooklatch.paths import find_config_file

__all__ = ["is_refusal", "SettingsFileCheck", "check_hosts"]

# Programs that refuse by exit code 2 only with a text on standard error.
WANT_TEXT: Final = frozenset({"codex", "gemini", "qwen"})
CODEX_KEYS: Final = {"hookEventName", "permissionDecision", "permissionDecisionReason"}


def is_refusal(host: str, exit_code: int, stdout: bytes, stderr: bytes) -> bool:
    """Return whether this output certainly refuses a tool call."""
    if exit_code == 2 and host != "cline":
        return (not stdout.strip() or host not in WANT_TEXT) and (bool(stderr.strip()) or host not in WANT_TEXT)
    if exit_code != 0:
        return host == "copilot" and exit_code > 0
    document = find_single_document(stdout)
    if document is None:
        return False
    inner = as_object(document.get("hookSpecificOutput"))
    match host:
        case "codex":
            is_strict = document.keys() <= {"hookSpecificOutput", "systemMessage"} and inner.keys() <= CODEX_KEYS
            return is_strict and is_deny(inner) and bool(inner.get("permissionDecisionReason"))
        case "claude-code" | "qwen" | "kimi" | "grok" | "auggie":
            return is_deny(inner)
        case "cline":
            return document.get("cancel") is True
        case "gemini":
            return document.get("decision") in ("deny", "block")
        case "copilot":
            return is_deny(document) or is_deny(inner)
        case "cursor":
            return document.get("permission") == "deny"
        case _:
            return False


def is_deny(table: Mapping[str, Any]) -> bool:
    return table.get("permissionDecision") == "deny"


def find_single_document(stdout: bytes) -> dict[str, Any] | None:
    """Return the one JSON object that is all of standard output; any text beside it disarms a refusal."""
    try:
        document: object = json.loads(stdout.decode())
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


LIMIT = 30.0  # seconds; an entry gives up after ten on a daemon that is silent


@dataclass(frozen=True, slots=True)
class HostFinding:
    """A finding about a host, with its remedy."""

    what: str
    do: str
    is_problem: bool = True


@dataclass(slots=True)
class SettingsFileCheck:
    """The check of one file of settings with our entries: the results of both runs, and the findings."""

    host: str
    title: str
    file: str
    events: list[str] = field(default_factory=list[str])
    canonical: set[str] = field(default_factory=set[str])
    words: tuple[str, ...] = ()  # of the entry for tool calls
    canary: str = "not tried"
    without_daemon: str = "not tried"
    form: Literal["c", "python", "unknown"] = "unknown"
    findings: list[HostFinding] = field(default_factory=list[HostFinding])

    def add_finding(self, what: str, do: str, *, is_problem: bool = True) -> None:
        self.findings.append(HostFinding(f"{self.title}: {what}", do, is_problem))


def check_hosts() -> list[SettingsFileCheck]:
    """Check the settings of every host, those of this folder's project included."""
    checks = [
        check
        for layout in LAYOUTS.values()
        for path in list_checked_files(layout)
        if (check := check_file(find_host(layout.name), layout, path)) is not None
    ]
    check_twice(checks)
    for layout in LAYOUTS.values():
        own_checks = [check for check in checks if check.host == layout.name and check.events]
        if own_checks:
            check_layers(own_checks, layout, {check.file for check in checks})
    return checks


def list_checked_files(layout: SettingsLayout) -> Iterator[str]:
    yield from layout.managed_files[:1]
    for path in list_settings_files(layout, user=False, project=False):
        if layout.place(path, layout.gate) == path:  # of scripts, the gate's stands for all
            yield path


def check_layers(checks: list[SettingsFileCheck], layout: SettingsLayout, own_files: set[str]) -> None:
    """Report what leaves the entries of a host out, hooks beside them, and files that may hold some."""
    host, check = find_host(layout.name), checks[0]
    documents = read_documents(layout, os.environ, os.getcwd())
    layers: frozenset[Layer] = frozenset(find_file_layer(layout, each.file) for each in checks)
    settings = effective.EffectiveSettings(host, layout, documents, layers)
    accepted = install_record.list_accepted(os.environ)
    for other in filter(settings.is_in_force, list_other_hooks(host, documents)):
        is_accepted = other.digest in accepted
        why_not = adopting.read_why_not(layout, other)
        take = "" if why_not else f"hooklatch install {layout.name} --adopt; "
        if other.document.value.get("head"):
            take = "move it to settings and adopt it there, where it runs for every call; "
        do = f"{take}take it out; or accept it as it is: hooklatch install {layout.name} --accept {other.digest}"
        what = f"{other.title}{', which you accepted' if is_accepted else ''}"
        check.add_finding(what, "nothing, as long as you mean it" if is_accepted else do, is_problem=not is_accepted)
    beside = [each for each in documents if each.layer == "managed" or not settings.turns_others_off]
    if found := list(dict.fromkeys(list_result_hooks(host, beside))):
        ends = "; a run ends where what was withheld is in it" if layout.name == "claude-code" else ""
        what = f"beside a guard on tool_result {'; '.join(found)} may answer last, and then its result is read{ends}"
        check.add_finding(what, "nothing where it changes no result; else take it out", is_problem=False)
    for document in documents:
        if document.fault and document.path not in own_files:
            check.add_finding(
                f"{document.fault}, so nothing is known of its hooks", "repair it, then: hooklatch doctor"
            )
    for finding in effective.judge_layers(settings):
        check.add_finding(finding.what, finding.do, is_problem=finding.is_problem)
    if "managed" in layers:
        check_owners(check, layout)


def find_file_layer(layout: SettingsLayout, path: str) -> Layer:
    if path in layout.managed_files:
        return "managed"
    return "user" if path == layout.file("user", os.environ, "") else "project"


def check_owners(check: SettingsFileCheck, layout: SettingsLayout) -> None:
    """Report what another user than root could change of managed entries: a note, since the operator chose it."""
    words = list(check.words)
    pins = dict(pairwise(words))
    config = os.path.abspath(find_config_file(pins.get("--config"), os.environ))
    places = [config, os.path.join(os.path.dirname(config), "hooks.d"), pins.get("--runtime-dir", ""), check.file]
    for place in managed.list_not_roots(words, places):
        what = f"{place} is not root's alone; who can write it can leave the guards out"
        check.add_finding(
            what, f"chown root, chmod go-w; or: hooklatch install {layout.name} --managed", is_problem=False
        )


def check_twice(checks: list[SettingsFileCheck]) -> None:
    """Report hosts that ask twice, since both their user's and a project's settings have entries."""
    for number, check in enumerate(checks):
        before = [other.file for other in checks[:number] if other.host == check.host and other.events]
        is_managed = before[:1] == [*LAYOUTS[check.host].managed_files[:1]]
        # Claude Code runs equal handlers once; and where managed hooks run alone, the others do not.
        if before and check.events and check.host != "claude-code" and not (is_managed and check.host == "codex"):
            what = f"{check.file} and {before[0]} both have its entries, so each event asks twice"
            scope = "--user" if is_managed else "--project"
            check.add_finding(what, f"hooklatch uninstall {check.host} {scope}", is_problem=False)


def check_file(host: Host, layout: SettingsLayout, path: str) -> SettingsFileCheck | None:
    check = SettingsFileCheck(layout.name, host.title, path)
    is_managed = find_file_layer(layout, path) == "managed"
    again = f"hooklatch install {layout.name}{' --managed' if is_managed else ''}"
    try:
        data = settings_files.read_if_present(path)
    except FileError as error:
        check.add_finding(f"{error}, so nothing is known of its hooks", "make it readable, then: hooklatch doctor")
        return check
    if data is None:
        return find_loss(check, layout, again)
    if layout.is_plugin:
        if not is_plugin(data):
            return find_loss(check, layout, again)
        if is_own(layout, path) or is_unchanged(path, data):
            return check_plugin(check, layout, data)
        refuse_to_start(check, again)
        return check
    text = data.decode(errors="replace").removeprefix("\ufeff")
    is_toml = path.endswith(".toml")
    try:
        if layout.form == "scripts":
            is_toml, entries = True, [entry for each in host.events for entry in find_script(layout.place(path, each))]
        else:
            entries = list(find_toml_entries(path) if is_toml else find_entries(text))
    except JsoncError as error:
        if "hooklatch" not in text and find_loss(check, layout, again) is None:
            return None
        what = f"{path}:{error.line}:{error.column}: {error.what}; a file that cannot be read has no hooks"
        check.add_finding(what, "repair it, then: hooklatch doctor")
        return check
    if not entries:
        return find_loss(check, layout, again)
    if not is_toml and (fault := layout.describe_unread_part(host.title, path, data)) is not None:
        is_sure = layout.has_comments is not None
        check.add_finding(
            f"{'DEAD: ' if is_sure else ''}{fault}", "take it out, then: hooklatch doctor", is_problem=is_sure
        )
    check.events = [entry.event for entry in entries]
    check.canonical = {
        name for entry in entries if entry.event in host.events for name in host.events[entry.event].fired
    }
    check_entries(check, host, layout, entries, again)
    if layout.name == "claude-code":
        check_bare(check, layout, entries)
    gates = [entry for entry in entries if entry.event == layout.gate and entry.matcher in (None, "", "*")]
    if not gates:
        check.add_finding(f"{path} has no entry for {layout.gate}: tool calls are not guarded", again)
    for gate in gates[:1]:
        check.form = name_form(gate.words)
        if is_own(layout, path) or is_ours(str(gate.handler[layout.command]), gate.words):
            try_gate(check, layout, gate, again)
        else:
            refuse_to_start(check, again)
    if layout.name == "codex" and not is_toml:
        check_trust(check, layout)
    return check


def find_loss(check: SettingsFileCheck, layout: SettingsLayout, again: str) -> SettingsFileCheck | None:
    """Report that a file has no entry of ours any more, if one was installed there; else return None."""
    installed = install_record.list_installed(os.environ).get(check.file)
    is_ours = check.file.endswith((layout.user, layout.project, *layout.managed_files))
    if installed is None or (installed.adopted and not is_ours):  # a file from which hooks were taken in
        return None
    what = f"DEAD: {check.file} has no entry any more, and one was installed there, so no guard is asked"
    check.add_finding(what, f"{again}; or, if that is meant: hooklatch uninstall {check.host}")
    return check


def find_toml_entries(path: str) -> Iterator[InstalledHandler]:
    """Yield our handlers in a file of TOML; that they cannot be read is found with the other documents."""
    hooks: object = read_document("managed", path).value.get("hooks")
    is_flat = isinstance(hooks, list)
    found = list_flat_handlers(cast("list[object]", hooks)) if is_flat else list_handlers(as_object(hooks).items())
    return (each for each in found if each.words)


def find_script(path: str) -> Iterator[InstalledHandler]:
    """Yield our entry in a script; one that cannot be read, or is another's, has none."""
    text = read_document("user", path).value.get("code", "") if os.path.isfile(path) else ""
    return find_script_entry(str(text)) if is_script(str(text).encode()) else iter(())


def name_form(words: Sequence[str]) -> Literal["c", "python"]:
    return "python" if is_python_form(words) else "c"


def is_own(layout: SettingsLayout, path: str) -> bool:
    """Return whether a file is the user's own or root's: every session of the agent starts its programs too."""
    return find_file_layer(layout, path) != "project"


def is_ours(line: str, words: tuple[str, ...]) -> bool:
    """Return whether a line starts this installation's entry and nothing else."""
    try:
        forms = [python_form(), [str(program_path(shipped=read_shipped()))]]
    except OSError:
        forms = [python_form()]
    is_alone = shlex.join(words) == line.strip()
    return is_alone and any(list(words[: len(form)]) == form for form in forms)


def is_unchanged(path: str, data: bytes) -> bool:
    known = install_record.list_installed(os.environ).get(path)
    return known is not None and known.digest == install_record.digest_bytes(data)


def refuse_to_start(check: SettingsFileCheck, again: str) -> None:
    # A project may come from anywhere, and a check of it must not run its programs.
    what = f"{check.file} starts something other than this installation's entry, so it was not tried"
    check.add_finding(what, f"look at it; if it is hooklatch's, write it anew: {again} --project")


def check_entries(
    check: SettingsFileCheck, host: Host, layout: SettingsLayout, entries: list[InstalledHandler], again: str
) -> None:
    check_start(check, [entry.words for entry in entries])
    gone = sorted(
        {word for entry in entries for word in entry.words if os.path.isabs(word) and is_gone(word, entry.words)}
    )
    if gone:
        check.add_finding(f"{check.file} starts {', '.join(gone)}, which is gone", again)
    twice = sorted({event for event in check.events if check.events.count(event) > 1})
    if twice:
        what = f"{check.file} has more than one entry for {', '.join(twice)}: each asks again"
        check.add_finding(what, again, is_problem=False)
    for entry in entries:
        spec = host.events.get(entry.event)
        kind = entry.words[entry.words.index("--kind") + 1 :][:1]
        if spec is not None and spec.kind == "gate" and kind and kind[0] in ("context", "notify"):
            check.add_finding(f"the entry for {entry.event} is not a gate, so a failure lets everything through", again)
        if entry.event not in entry.words:
            check.add_finding(f"the entry for {entry.event} is another event's, so it refuses everything", again)
    silent = [event for event in check.events if event not in host.events]
    if silent:
        what = f"it never fires {', '.join(silent)}, which {check.file} has entries for"
        check.add_finding(what, again, is_problem=False)
    missing = [
        event for event, spec in host.events.items()
        if spec.kind == "gate" and spec.event and not spec.alters_host and not layout.skip(event)
        and event not in check.events and event != layout.gate
    ]  # fmt: skip
    if missing:
        program = find_program(layout, None, os.environ)
        version = read_program_version(program, os.environ)[0] if program is not None else None
        # The program may be newer than its entries, and run commands at a moment that it did not have then.
        calls = [event for event in missing if version is not None and host.events[event].event == "pre_tool_use"]
        for event in calls:
            is_known = layout.knows(event, version)
            fault = f"{check.file} has no entry for {event}" if is_known else f"its version is too old for {event}"
            check.add_finding(f"{fault}: such calls are not guarded", again, is_problem=is_known)
        if others := [event for event in missing if event not in calls and layout.knows(event, version)]:
            check.add_finding(f"{check.file} has no entry for {', '.join(others)}", again, is_problem=False)


def is_gone(word: str, words: tuple[str, ...]) -> bool:
    is_pin = words[words.index(word) - 1] in ("--runtime-dir", "--config", "--state-dir")
    return not is_pin and not os.path.exists(word)


def check_start(check: SettingsFileCheck, commands: Iterable[Sequence[str]]) -> None:
    """Report faults by which entries start no daemon, or another one than the operator means."""
    again = f"hooklatch install {check.host} --start"
    words = next((words for words in commands if "--start" in words), None)
    if words is None:
        return
    pins = dict(pairwise(words))
    config, state = pins.get("--config"), pins.get("--state-dir")
    if config is None or state is None or "--runtime-dir" not in pins:
        what = f"{check.file} starts a daemon with the hooks and the state that the agent's environment names"
        check.add_finding(what, f"an older version has written it; write it anew: {again}")
        return
    if not os.path.exists(config):
        check.add_finding(f"its entries cannot start a daemon: there is no {config}", "hooklatch init, or fix the path")
    try:
        read_start_environment(state)
    except (OSError, ValueError) as error:
        check.add_finding(f"its entries cannot start a daemon: {locate_error(error)}", again)


def check_bare(check: SettingsFileCheck, layout: SettingsLayout, entries: Sequence[InstalledHandler]) -> None:
    """Report an entry for tool calls without Claude Code's own way to fail closed, where the program has it."""
    is_bare = any(entry.event == layout.gate and "onFailure" not in entry.handler for entry in entries)
    program = find_program(layout, None, os.environ) if is_bare else None
    version = read_program_version(program, os.environ)[0] if program is not None else None
    if version is not None and version >= layout.strict_since:
        what = "the entry for PreToolUse lets a call go on if it is killed, and this version could refuse"
        check.add_finding(what, "hooklatch install claude-code", is_problem=False)


def check_trust(check: SettingsFileCheck, layout: SettingsLayout) -> None:
    program = find_program(layout, None, os.environ)
    if program is None:
        what = "codex is not on the PATH, so it is unknown whether it trusts its entries"
        check.add_finding(what, codex_trust.BY_HAND, is_problem=False)
        return
    try:
        hooks = codex_trust.list_codex_hooks(program, check.file, os.environ)
    except codex_trust.CodexUnansweredError as error:
        check.add_finding(f"it is unknown whether the entries are trusted: {error}", codex_trust.BY_HAND)
        return
    if not hooks:
        what = f"it does not see the entries in {check.file}, so none of them runs"
        check.add_finding(what, "trust the project in Codex, and take hooks = false out of [features]")
    if untrusted := codex_trust.list_untrusted(hooks):
        check.add_finding(f"{len(untrusted)} of its entries are not trusted: it leaves them out without a word",
                      codex_trust.BY_HAND)  # fmt: skip
    off = [str(hook.get("eventName")) for hook in hooks if hook.get("enabled") is False]
    if off:
        check.add_finding(
            f"its entries for {', '.join(off)} are turned off", "start Codex, type /hooks, and turn them on"
        )


def try_gate(check: SettingsFileCheck, layout: SettingsLayout, gate: InstalledHandler, again: str) -> None:
    """Start an entry twice: as the host does, and without a daemon."""
    line = str(gate.handler[layout.command])
    nonce = secrets.token_hex(16)  # only the daemon gives it back: a refusal without it comes from something else
    document = make_canary_document(layout, nonce)
    try:
        done = run_host_program(["/bin/sh", "-c", line], limit=LIMIT, stdin=document, environ=os.environ)
    except (OSError, LateError) as error:
        check.canary = f"FAILED: {locate_error(error)}"
        check.add_finding(f"DEAD: the entry in {check.file} does not answer: {locate_error(error)}", again)
    else:
        judge_canary(
            check, is_refused=is_refusal(layout.name, done.exit_code, done.stdout, done.stderr),
            is_by_daemon=nonce.encode() in done.stdout + done.stderr, answer=format_exit(done),
            by_host=find_host(layout.name).title if is_blocked_by_host(gate, done) else "",
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="hooklatch-") as folder:
        try:
            alone = run_host_program(
                ["/bin/sh", "-c", aim_elsewhere(gate.words, folder)], limit=LIMIT, stdin=document, environ=os.environ
            )
        except (OSError, LateError) as error:
            check.without_daemon = f"FAILED: {locate_error(error)}"
            check.add_finding(f"DEAD: without a daemon the entry does not answer: {locate_error(error)}", again)
            return
    if is_refusal(layout.name, alone.exit_code, alone.stdout, alone.stderr):
        check.without_daemon = "refused"
        return
    if is_blocked_by_host(gate, alone):
        check.without_daemon = f"refused by {find_host(layout.name).title} itself"
        return
    check.without_daemon = "NOT REFUSED"
    check.add_finding(f"DEAD: without a daemon a tool call would go on ({format_exit(alone)})", again)


def is_blocked_by_host(gate: InstalledHandler, done: ProgramExit) -> bool:
    """Return whether the host itself blocks a call whose entry has failed like this, as Claude Code is told to."""
    return gate.handler.get("onFailure") == "block" and done.exit_code not in (0, 2)


def judge_canary(
    check: SettingsFileCheck, *, is_refused: bool, is_by_daemon: bool, answer: str, by_host: str = ""
) -> None:
    """Report what became of the call that has to be refused; `by_host` is the host that refused it by itself."""
    again = f"hooklatch install {check.host}, then: hooklatch doctor"
    if is_refused and is_by_daemon:
        check.canary = "refused by the daemon"
    elif is_refused:
        check.canary = "refused, but not by the daemon"
        what = f"DEAD: every tool call is refused, since no daemon answers the entry in {check.file} ({answer})"
        check.add_finding(what, "hooklatch serve --detach; if it runs elsewhere, install again with --runtime-dir")
    elif by_host:
        check.canary = f"refused, but only by {by_host} itself"
        what = f"DEAD: every tool call is refused, by {by_host} itself (onFailure), since the entry in {check.file}"
        check.add_finding(f"{what} cannot run ({answer})", again)
    else:
        check.canary = "NOT REFUSED"
        check.add_finding(f"DEAD: a call that has to be refused went through {check.file} ({answer})", again)


def make_canary_document(layout: SettingsLayout, nonce: str) -> bytes:
    # Copilot's camelCase documents do not name their event; the other hosts' documents may.
    name = {} if layout.name == "copilot" else {"hook_event_name": layout.gate}
    here: Mapping[str, str] = {"cwd": os.getcwd()}
    return json.dumps({**name, **here, **layout.canary, canary.KEY: nonce}).encode()


def aim_elsewhere(words: tuple[str, ...], folder: str) -> str:
    """Return the command line with a runtime folder in which no daemon listens, and without starting one."""
    return shlex.join([*drop_daemon_words(words), "--runtime-dir", folder])


def drop_daemon_words(words: tuple[str, ...]) -> Iterator[str]:
    """Yield the words of a command line without those that name or start a daemon."""
    iterator = iter(words)
    for word in iterator:
        if word == "--runtime-dir":
            next(iterator, None)
        elif word != "--start":
            yield word


def format_exit(done: ProgramExit) -> str:
    text = (done.stdout or done.stderr).decode(errors="replace").strip()
    return f"exit code {done.exit_code}, {text[:200]!r}" if text else f"exit code {done.exit_code}, no text"


def check_plugin(check: SettingsFileCheck, layout: SettingsLayout, data: bytes) -> SettingsFileCheck:
    host = find_host(layout.name)
    check.events = [event for event in host.events if f'"{event}"'.encode() in data]
    check.canonical = {host.events[event].event for event in check.events} - {""}
    nonce = secrets.token_hex(16)
    try:
        commands = list(plugin.list_plugin_commands(data.decode()).values())
        if commands:
            check.form = name_form(commands[0])
        check_start(check, commands)
        with tempfile.TemporaryDirectory(prefix="hooklatch-") as folder:
            is_refused, text = plugin.try_plugin(data.decode(), {canary.KEY: nonce}, folder)
            no_daemon = os.path.join(folder, "nobody")
            os.mkdir(no_daemon)
            alone = plugin.try_plugin(
                plugin.rewrite_commands(data.decode(),
                lambda words: [*drop_daemon_words(words), "--runtime-dir", no_daemon]),
                {canary.KEY: nonce}, folder,
            )  # fmt: skip
    except plugin.NoRuntimeError as error:
        check.add_finding(f"{check.file} cannot be tried: {error}", "install node or bun", is_problem=False)
        return check
    except (OSError, LateError, plugin.TrialError) as error:
        check.add_finding(
            f"DEAD: {check.file} cannot be run: {locate_error(error)}", f"hooklatch install {layout.name}"
        )
        return check
    judge_canary(check, is_refused=is_refused, is_by_daemon=nonce in text, answer=text[:200] or "it answered")
    check.without_daemon = "refused" if alone[0] else "NOT REFUSED"
    if not alone[0]:
        check.add_finding("DEAD: without a daemon a tool call would go on", f"hooklatch install {layout.name}")
    return check

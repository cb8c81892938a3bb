"""The command `suggest`: rules that the record of a week suggests, each tried on that week, and written after a yes.

Only the proposed rules are fired, never the hooks of this user: each says what it would, and enforces nothing.  What
the other hooks said then is in the record.  To find the file of a guard that asked, this user's hooks are loaded as
`check` loads them.  No running daemon is involved.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hooklatch.cli.daemon.log import check_record, format_verify_report
from hooklatch.cli.daemon.suggesting import (
    IMPORT,
    JudgedCall,
    Rule,
    Week,
    count_asking_others,
    describe_records,
    find_answered_rules,
    find_folder_rules,
    insert_exception,
    list_tables,
    read_judged_call,
    read_week,
)
from hooklatch.cli.hooks.guard_files import find_hooks_folder, split_lines, write_new
from hooklatch.cli.hooks.guards import guard_files
from hooklatch.cli.hosts.settings_files import FileError, read_if_present, replace_file
from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.questions import ask_yes, may_ask
from hooklatch.cli.terminal.records import parse_record_time, record_folder
from hooklatch.cli.testing.payloads import KeptFire, SelectedFires, read_kept_fires, select_fires
from hooklatch.cli.testing.replay import KeptFireRunner, VerdictChangeCount
from hooklatch.cli.testing.running import FireRunner, run_with_daemon
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.protocol import RpcError
from hooklatch.core.subject import read_tool_name
from hooklatch.core.text import format_count
from hooklatch.files import create_anew
from hooklatch.git_sources import guard_paths, is_copied
from hooklatch.guards.catalogue import find_gallery_guard, read_guard_source
from hooklatch.paths import find_config_file
from hooklatch.record.storage.reading import MOMENTS
from hooklatch_worker.author.tools import find_tool_kind_by_name

if TYPE_CHECKING:
    from hooklatch.core.messages import FireDecision
    from hooklatch.service.parts import DaemonComponents

__all__ = ["add_suggest"]

SINCE = "7d"
NEEDED = 30  # decisions on record; that something never happened says nothing of fewer
TIMES = 5
COMMANDS = 20  # calls that a guard of the gallery has judged, before it is said that it objects to none
SHOWN = 10
GALLERY = {
    "destructive_commands": "commands", "git_rules": "commands", "network_egress": "commands",
    "package_installs": "commands", "only_guarded_agents": "commands", "protected_paths": "paths",
}  # fmt: skip
STRICTNESS = ("pass", "allow", "ask", "deny", "halt")
TITLES = {
    "allow": "allow what a person allowed each time",
    "deny": "refuse what a person refused each time",
    "folder": "ask before this folder is changed, which was only read",
    "paths": "add the guard of paths, none of which was written",
    "commands": "add a guard of the gallery: nothing was run that it objects to",
}


class RuleReplay(msgspec.Struct, frozen=True):
    """The decisions that were put to a rule, and how many of them would change.

    `unreplayed` more decisions could not be, since something of them was redacted (`redacted` of these) or cut off.
    """

    decisions: int
    changed: int
    changes: list[VerdictChangeCount]
    unreplayed: int
    redacted: int


class Proposal(msgspec.Struct, frozen=True):
    """A rule to write, with its evidence and its replay.

    `name` is that of the rule, which tells it from every other: that of the guard in the gallery, else one with a
    digest of what the rule is for.  `kind` is allow, deny, folder, paths or commands.  `count` are the asks, the reads
    or the calls that it is about, of so many sessions.  `path` is the file that it is written to, and `text` what is
    written: the file, or what is added to the guard that asked (`hook`); null for a guard of the gallery.  It is
    `verified` if the record is.
    """

    name: str
    kind: str
    title: str
    subject: str
    hook: str | None
    count: int
    first: str
    last: str
    sessions: int
    replay: RuleReplay
    path: str
    text: str | None
    verified: bool


class Suggestions(msgspec.Struct, frozen=True):
    """`suggest`: the proposals of the decisions between two moments, and notes about what there is none for.

    Those that would change most decisions, and so save most asks, come first, then those with most evidence.
    """

    since: str
    until: str
    decisions: int
    asks: int
    verified: bool
    proposals: list[Proposal]
    notes: list[str]


class RuleTally(NamedTuple):
    """The decisions for which a rule was called, and how many it would change, from what and to what."""

    calls: list[str]
    changes: Counter[tuple[str, str]]


class WrittenRule(NamedTuple):
    """A rule and the way to write it: new files, or an exception in a `function` of the file at `path`."""

    rule: Rule
    path: str
    files: dict[str, str]
    function: str = ""

    def edit(self) -> tuple[bytes, bytes] | None:
        """Return the file as it is now and with the exception; None if it cannot take that, or has it."""
        call = self.rule.call
        try:
            before = read_if_present(self.path)
        except FileError:
            return None
        if before is None or call is None:
            return None
        after = insert_exception(before, self.function, call, self.rule.reason)
        return (before, after) if after is not None else None


class RuleRunner(KeptFireRunner):
    """A runner that puts the decisions of a week to rules, which observe: each says what it would.

    A decision of which something is missing is put to none of them.
    """

    def __init__(self, selected: SelectedFires, rules: Sequence[Rule], week: Week) -> None:
        super().__init__(selected)
        self.fired = self.redacted = self.failed = 0
        self.tallies = {rule.name: RuleTally([], Counter()) for rule in rules}
        self._week = week
        self._rules = {rule.name: rule for rule in rules}
        self._observing: dict[Hook, Hook] = {}

    async def fire_each(self, parts: DaemonComponents) -> None:
        loaded = {hook.id.partition(":")[0] for hook in parts.registries.view.hooks if hook.problem is None}
        if missing := sorted(self._rules.keys() - loaded):
            self.error = CommandError(Exit.SOFTWARE, f"{missing[0]} does not load: {'; '.join(self.diagnostics)}")
            return
        await super().fire_each(parts)

    async def fire(self, fire: KeptFire, parts: DaemonComponents) -> None:
        from hooklatch.service.dispatch.fires import DialectPlan

        if fire.redacted:
            self.redacted += 1
            return
        try:
            plan = DialectPlan(parts.registries.find_event(fire.kept.event), self.list_observing)
            decision = await parts.dispatcher.fire(fire.kept.params, None, plan=plan)
        except RpcError:  # an event of the user's own, which no rule is for
            self.fired += 1
            return
        self.take(str(fire.record.get("decision_id")), decision)

    def list_observing(self, hooks: Sequence[Hook]) -> Sequence[Hook]:
        """Return the rules, observing; without the hooks of plugins, which are installed here too."""
        rules = [hook for hook in hooks if hook.layer is Layer.GLOBAL]
        for hook in rules:
            if hook not in self._observing:
                self._observing[hook] = msgspec.structs.replace(hook, observe=True)
        return [self._observing[hook] for hook in rules]

    def take(self, decision_id: str, decision: FireDecision) -> None:
        """Count what each rule said of a decision."""
        if decision.cause not in (None, "policy"):
            self.failed += 1
            return
        self.fired += 1
        record = self._week.decisions.get(decision_id, {})
        then = "ask" if decision_id in self._week.asked else str(record.get("verdict"))
        for outcome in decision.outcomes:
            name = outcome.hook.partition(":")[0]
            rule, tally = self._rules[name], self.tallies[name]
            tally.calls.append(decision_id)
            own = outcome.verdict if outcome.cause == "policy" else "deny"
            now = then
            if rule.kind == "allow":
                if own == "allow" and then == "ask" and not count_asking_others(record, str(rule.asker)):
                    now = "allow"
            elif own in STRICTNESS and (then not in STRICTNESS or STRICTNESS.index(own) > STRICTNESS.index(then)):
                now = own
            if now != then:
                tally.changes[then, now] += 1


class HookFinder(FireRunner):
    """A runner that fires nothing: it finds this user's hooks by their full names."""

    def __init__(self) -> None:
        super().__init__(0, "decision")
        self.hooks: dict[str, Hook] = {}

    async def fire_each(self, parts: DaemonComponents) -> None:
        self.hooks = {hook.name: hook for hook in parts.registries.view.hooks}


def add_suggest(parser: Parser) -> None:
    exits = (
        Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE, Exit.CANNOT_CREATE, Exit.NOT_PERMITTED,
    )  # fmt: skip
    parser.runs(run_suggest, example="hooklatch suggest --since 7d", exits=exits)
    parser.prints("cli.daemon.suggest:Suggestions")
    for name, help_text in (
        ("since", f"a moment such as {MOMENTS} (default: {SINCE})"), ("until", "likewise (default: now)"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", metavar="WHEN", type=parse_record_time, help=help_text)
    parser.add_argument(
        "--times", metavar="N", type=parse_times, default=TIMES,
        help=f"asks that were answered alike so many times (default: {TIMES})",
    )  # fmt: skip
    parser.add_argument("--write", metavar="NAME", help="show and write the proposal with this name")
    parser.add_argument("--unverified", action="store_true", help="also of a record that `log verify` finds wrong")
    parser.add_argument("--record", metavar="DIR", help="the record's directory (default: the daemon's)")


def parse_times(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def run_suggest(arguments: argparse.Namespace) -> int:
    folder = record_folder(arguments)
    arguments.since = arguments.since or parse_record_time(SINCE)
    arguments.until = arguments.until or parse_record_time(datetime.now(UTC).isoformat().replace("+00:00", "Z"))
    is_verified = verify_first(folder, may_be_wrong=arguments.unverified)
    week = read_week(folder, since=arguments.since, until=arguments.until)
    if (count := len(week.decisions)) < NEEDED:
        text = f"{folder} has {format_count(count, 'decision')} since {arguments.since}, and a rule needs {NEEDED}"
        raise CommandError(Exit.NO_INPUT, f"{text}: try again later, or name an earlier moment with --since")
    suggestions, written = suggest_rules(arguments, week, is_verified=is_verified)
    names = [proposal.name for proposal in suggestions.proposals]
    if arguments.write is not None and names.count(arguments.write) != 1:
        there = f"there are {', '.join(names)}" if names else "there is none"
        raise CommandError(Exit.USAGE, f"there is no proposal {arguments.write!r}: {there}; nothing was written")
    if arguments.json:
        output.say_json(suggestions)
    elif arguments.write is None:
        print_suggestions(suggestions, arguments)
    for proposal, choice in zip(suggestions.proposals, written, strict=True):
        is_chosen = proposal.name == arguments.write
        is_asked = arguments.write is None and not arguments.json and may_ask()
        if (is_chosen and not arguments.json) or is_asked:
            print_proposal(proposal)
            show_text(proposal, choice)
        if is_chosen or (is_asked and ask_yes(f"write {proposal.name}?", is_default=False)):
            write_rule(choice, says=not arguments.json)
    return Exit.OK


def verify_first(folder: str, *, may_be_wrong: bool) -> bool:
    """Return whether the record is as it was written; say so first if it is not, and then refuse to go on."""
    report = check_record(folder)
    if report.ok:
        return True
    wrong = next((text for label, text in format_verify_report(folder, report) if label == "WRONG"), "")
    text = f"the record cannot be verified: {wrong}; to see all: hooklatch log verify"
    if not may_be_wrong:
        raise CommandError(Exit.FINDINGS, f"{text}; --unverified suggests all the same, and marks each rule")
    output.print_error(text)
    return False


def suggest_rules(
    arguments: argparse.Namespace, week: Week, *, is_verified: bool
) -> tuple[Suggestions, list[WrittenRule]]:
    """Find rules, try them on the week, and return those that hold with the ways to write them."""
    options = {"session": None, "hook": None, "event": None, "verdict": None, **vars(arguments)}
    selected = select_fires(argparse.Namespace(**options))
    calls, payloads = dict[str, JudgedCall](), dict[str, object]()
    for fire in read_kept_fires(selected):
        decision_id = str(fire.record.get("decision_id"))
        if (call := read_judged_call(fire)) is not None:
            calls[decision_id] = call
            if decision_id in week.answered:
                payloads[decision_id] = msgspec.json.decode(fire.kept.payload)
    folder = find_hooks_folder(arguments, None)
    answered = list(find_answered_rules(week, calls, payloads, times=arguments.times))
    choices, notes = place_rules(arguments, answered, folder)
    home = os.path.expanduser("~")
    others = [*find_folder_rules(week, calls, times=arguments.times, home=home), *list_gallery_rules(week)]
    choices += [place_new_rule(rule, folder) for rule in others]
    choices = [choice for choice in choices if choice.function or not os.path.lexists(choice.path)]
    runner = try_rules(selected, [choice.rule for choice in choices], week)
    kept: list[tuple[Rule, WrittenRule, RuleTally]] = []
    for choice in choices:
        tally = runner.tallies[choice.rule.name]
        if (rule := judge_rule(choice.rule, tally, week, times=arguments.times)) is not None:
            kept.append((rule, choice, tally))
    kept = sorted(kept, key=lambda row: (-row[2].changes.total(), -row[0].count, row[0].name))[:SHOWN]
    proposals = [
        Proposal(
            rule.name, rule.kind, TITLES[rule.kind], rule.subject, rule.asker, rule.count, rule.first, rule.last,
            rule.sessions,
            RuleReplay(
                runner.fired, tally.changes.total(),
                [VerdictChangeCount(*pair, times) for pair, times in tally.changes.most_common()],
                selected.unkept + runner.redacted + runner.failed, runner.redacted,
            ),
            choice.path, describe_text(choice), is_verified,
        )
        for rule, choice, tally in kept
    ]  # fmt: skip
    if unknown := sum(record.get("verdict") == "ask" for record in week.decisions.values()):
        notes.append(f"{format_count(unknown, 'ask')} went to the agents, whose answers are not on record: [ask] wait")
    counts = len(week.decisions), len(week.asked)
    suggestions = Suggestions(arguments.since, arguments.until, *counts, is_verified, proposals, notes)
    return suggestions, [choice for _, choice, _ in kept]


def place_rules(
    arguments: argparse.Namespace, rules: Sequence[Rule], folder: str
) -> tuple[list[WrittenRule], list[str]]:
    """Return the ways to write rules that answer asks, and why some cannot be written."""
    choices = [place_new_rule(rule, folder) for rule in rules if rule.kind == "deny"]
    notes: list[str] = []
    allowing = [rule for rule in rules if rule.kind == "allow"]
    hooks = find_hooks(arguments) if allowing else {}
    for rule in allowing:
        place = find_function_place(hooks.get(str(rule.asker)))
        choice = WrittenRule(rule, place[0], {}, place[1]) if place is not None else None
        if choice is not None and choice.edit() is not None:
            choices.append(choice)
            continue
        asks = f"{format_count(rule.count, 'ask')} of {rule.asker} about {rule.subject} were all allowed"
        why = (
            "its file may make a denial of its ask elsewhere, so it cannot take an exception; or it has it"
            if choice is not None
            else "it is not a Python function in a file of yours"
        )
        notes.append(f"{asks}: {why}")
    return choices, notes


def find_hooks(arguments: argparse.Namespace) -> dict[str, Hook]:
    finder = HookFinder()
    run_with_daemon(finder.fire_all, os.path.abspath(find_config_file(arguments.config, os.environ)))
    if finder.error is not None:
        raise finder.error
    return finder.hooks


def find_function_place(hook: Hook | None) -> tuple[str, str] | None:
    """Return the file and the function of a global hook of this user's own; None for any other."""
    if hook is None or hook.layer is not Layer.GLOBAL or not isinstance(hook.target, PythonTarget):
        return None
    path = hook.target.source.location
    if hook.target.command or not path.endswith(".py") or not os.path.isabs(path) or is_copied(path):
        return None
    return (path, hook.target.function) if os.access(path, os.W_OK) else None


def place_new_rule(rule: Rule, folder: str) -> WrittenRule:
    path = os.path.join(folder, f"{rule.name}.py")
    if rule.kind in ("paths", "commands"):
        return WrittenRule(rule, path, guard_files(folder, rule.name))
    cases = "".join(f"{msgspec.json.encode(case).decode()}\n" for case in rule.cases)
    return WrittenRule(rule, path, {guard_paths(folder, rule.name).cases: cases, path: rule.text})


def list_gallery_rules(week: Week) -> list[Rule]:
    """Return the guards of the gallery for commands and paths that were not called in that week."""
    called = {
        str(outcome.get("hook")).partition(":")[0]
        for record in week.decisions.values()
        for outcome in list_tables(record, "outcomes")
    }
    return [
        Rule(kind, name, read_guard_source(name), f"{name}: {find_gallery_guard(name).summary}", 0, "", "", 0)
        for name, kind in GALLERY.items()
        if name not in called
    ]


def try_rules(selected: SelectedFires, rules: Sequence[Rule], week: Week) -> RuleRunner:
    """Put the decisions of a week to rules, in a daemon of their own."""
    runner = RuleRunner(selected, rules, week)
    with tempfile.TemporaryDirectory(prefix="hooklatch-rules-") as folder:
        paths = [os.path.join(os.path.realpath(folder), f"{rule.name}.py") for rule in rules]
        for path, rule in zip(paths, rules, strict=True):
            with os.fdopen(create_anew(path), "w", encoding="utf-8") as file:
                file.write(rule.text)
        run_with_daemon(runner.fire_all, files=paths)
    if runner.error is not None:
        raise runner.error
    return runner


def judge_rule(rule: Rule, tally: RuleTally, week: Week, *, times: int) -> Rule | None:
    """Return a rule with its evidence, if the week bears it out; else None."""
    if rule.kind in ("allow", "deny"):
        return rule if tally.changes else None
    if tally.changes:
        return None
    if rule.kind == "folder":
        return rule
    judged = [week.decisions[decision_id] for decision_id in tally.calls if decision_id in week.decisions]
    kinds = [find_tool_kind_by_name(read_tool_name(record) or "") for record in judged]
    if len(judged) < COMMANDS or (rule.kind == "paths" and sum(kind in ("write", "edit") for kind in kinds) < times):
        return None
    first, last, sessions = describe_records(judged)
    return msgspec.structs.replace(rule, count=len(tally.calls), first=first, last=last, sessions=sessions)


def describe_text(choice: WrittenRule) -> str | None:
    rule = choice.rule
    if choice.function and rule.call is not None:
        return f"{IMPORT}\n{rule.call.write_exception(rule.reason)}"
    return None if rule.kind in GALLERY.values() else rule.text


def print_suggestions(suggestions: Suggestions, arguments: argparse.Namespace) -> None:
    since = look.format_moment(suggestions.since)
    counted = f"{format_count(suggestions.decisions, 'decision')}, {format_count(suggestions.asks, 'ask')}"
    output.print_line(f"{counted} since {since}: {format_count(len(suggestions.proposals), 'proposal')}")
    for note in suggestions.notes:
        output.print_error(note)
    if may_ask():
        return
    for proposal in suggestions.proposals:
        print_proposal(proposal)
        output.say_lines(("write", format_write_command(arguments, proposal.name)))
    if suggestions.proposals:
        output.print_line()
        output.print_line("nothing was written")


def format_write_command(arguments: argparse.Namespace, name: str) -> str:
    """Return the command that shows and writes the rule with this name, of the same record and the same moments."""
    words = ["hooklatch", "suggest", "--since", arguments.since, "--until", arguments.until]
    if arguments.times != TIMES:
        words += ["--times", str(arguments.times)]
    if arguments.unverified:
        words.append("--unverified")
    for option, path in (
        ("record", arguments.record), ("config", arguments.config), ("runtime-dir", arguments.runtime_dir),
    ):  # fmt: skip
        words += [f"--{option}", os.path.abspath(path)] if path else []
    words += ["--daemon-uid", str(arguments.daemon_uid)] if arguments.daemon_uid is not None else []
    return shlex.join([*words, "--write", name])


def print_proposal(proposal: Proposal) -> None:
    noun = {"allow": "ask", "deny": "ask", "folder": "read"}.get(proposal.kind, "call")
    of = f" of {proposal.hook}" if proposal.hook else ""
    between = f"{look.format_moment(proposal.first)} to {look.format_moment(proposal.last)}"
    mark = "" if proposal.verified else " (of a record that cannot be verified)"
    output.print_line()
    output.print_line(look.paint_text(f"{proposal.name}: {proposal.title}", "title"), mark)
    replay = proposal.replay
    changes = "".join(f", {change.then} to {change.now} {change.times}" for change in replay.changes)
    lost = f"; {replay.unreplayed} more could not be put to it, redacted ({replay.redacted}) or cut off"
    evidence = f"{format_count(proposal.count, noun)}{of}, {between}, {format_count(proposal.sessions, 'session')}"
    output.say_lines(
        ("about", proposal.subject),
        ("evidence", evidence),
        (
            "replay",
            f"of {format_count(replay.decisions, 'decision')}, {replay.changed} would change{changes}"
            + (lost if replay.unreplayed else ""),
        ),
        ("file", look.shorten_path(proposal.path)),
    )


def show_text(proposal: Proposal, choice: WrittenRule) -> None:
    """Show what would be written, line by line."""
    if choice.function:
        before, after = (split_lines(data.decode(errors="replace")) for data in choice.edit() or (b"", b""))
        output.say_diff(difflib.unified_diff(before, after, "now", "then", lineterm="", n=2))
    elif proposal.text is not None:
        for line in split_lines(proposal.text):
            output.say_exact(line)
    else:
        output.print_line(f"as with: hooklatch guards add {choice.rule.name}")


def write_rule(choice: WrittenRule, *, says: bool) -> None:
    """Write a rule, all of it or nothing."""
    if choice.function:
        if (edit := choice.edit()) is None:
            raise CommandError(Exit.CANNOT_CREATE, f"{choice.path} was changed in the meantime; run it again")
        try:
            replace_file(choice.path, *edit)
        except FileError as error:
            raise CommandError(Exit.CANNOT_CREATE, f"{error}; nothing was written") from None
    else:
        write_new(choice.files)
    if says:
        output.print_line(f"wrote {look.shorten_path(choice.path)}; next: hooklatch check")

"""The commands that use payloads which the record has whole: `replay`, and `record cases`.

`replay` fires them at another set of hooks, and shows which decisions would change.  The daemon runs in this process,
in temporary directories, as for `test`: no agent gets an answer, and no other daemon's state is read or changed.  The
effects of hooks besides their answers are real.  `record cases` writes them as cases for `hooklatch test`, and
overwrites nothing.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.look import format_moment
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.terminal.records import parse_record_time
from hooklatch.cli.testing.payloads import HOW, LOST, KeptFire, SelectedFires, add_choice, read_kept_fires, select_fires
from hooklatch.cli.testing.running import FireRunner, decide_fire, run_with_daemon
from hooklatch.core.hooks.names import read_full_name
from hooklatch.core.outcome_texts import has_failed, read_hook_name
from hooklatch.core.protocol import RpcError
from hooklatch.core.subject import read_subject
from hooklatch.core.text import format_count
from hooklatch.paths import find_config_file
from hooklatch_worker.author.ambiguity import find_ambiguity

if TYPE_CHECKING:
    from hooklatch.core.messages import FireDecision
    from hooklatch.service.parts import DaemonComponents

__all__ = ["KeptFireRunner", "add_replay", "add_cases", "add_record", "write_cases"]

SINCE = "7d"
KEPT = f"the excerpt in the record ([record] excerpt_bytes), or was never read; {HOW}"
SHOWN = 30  # changed decisions that are shown; --json has all


class DecisionSummary(msgspec.Struct, frozen=True):
    """A decision that was or would be made: its verdict, its hook, and its cause."""

    verdict: str
    hook: str | None
    cause: str | None
    reason: str | None

    @property
    def text(self) -> str:
        by = f" by {self.hook}" if self.hook else ""
        return f"{self.verdict}{by}" + (f" ({self.cause})" if self.cause not in (None, "policy") else "")


class VerdictChangeCount(msgspec.Struct, frozen=True):
    """The number of decisions like `then` that became decisions like `now`."""

    then: str
    now: str
    times: int


class ReplayedDecision(msgspec.Struct, frozen=True):
    """A decision that was fired again; `redacted` are places of its payload where the hooks of now saw less."""

    seq: int
    at: str | None
    decision_id: str
    session: str | None
    host: str | None
    event: str
    tool: str | None
    then: DecisionSummary
    now: DecisionSummary
    changed: bool
    redacted: list[str]


class ReplayReport(msgspec.Struct, frozen=True):
    """`replay`: the number of decisions that were fired again, that would change, and that have no whole payload.

    `lost` of these had one.  `short` of those that were fired have it in their record, without what else was known of
    the agent than its session, its folder and its program.
    """

    fired: int
    changed: int
    unkept: int
    lost: int
    short: int
    redacted: int
    diagnostics: list[str]
    changes: list[VerdictChangeCount]
    fires: list[ReplayedDecision]


class DecisionPair(NamedTuple):
    """A decision, then and now; `redacted` are places where the hooks of now saw less."""

    fire: KeptFire
    then: DecisionSummary
    now: DecisionSummary
    redacted: tuple[str, ...]

    @property
    def is_changed(self) -> bool:
        return (self.then.verdict, self.find_failure(self.then)) != (self.now.verdict, self.find_failure(self.now))

    @staticmethod
    def find_failure(summary: DecisionSummary) -> str | None:
        return None if summary.cause == "policy" else summary.cause


class KeptFireRunner(FireRunner):
    """A runner of kept payloads, the oldest first."""

    def __init__(self, selected: SelectedFires) -> None:
        super().__init__(len(selected.records), "decision")
        self._selected = selected

    async def fire_each(self, parts: DaemonComponents) -> None:
        try:
            for fire in read_kept_fires(self._selected):
                self._doing = f"firing record {fire.seq}"
                await self.fire(fire, parts)
                self.done += 1
                parts.breakers.clear()  # a hook that died in earlier ones must not be quarantined in this one
        except CommandError as error:
            self.error = error

    async def fire(self, fire: KeptFire, parts: DaemonComponents) -> None:
        """Fire one payload, and note what was decided."""
        raise NotImplementedError


class Replay(KeptFireRunner):
    """A runner that pairs each decision with that of now."""

    def __init__(self, selected: SelectedFires) -> None:
        super().__init__(selected)
        self.pairs: list[DecisionPair] = []

    async def fire(self, fire: KeptFire, parts: DaemonComponents) -> None:
        now = await replay_decision(fire, parts)
        self.pairs.append(DecisionPair(fire, summarize_record(fire.record), now, fire.redacted))


def summarize_record(record: dict[str, Any]) -> DecisionSummary:
    return DecisionSummary(
        str(record.get("verdict")), read_hook_name(record) or None, record.get("cause"), record.get("reason")
    )


async def replay_decision(fire: KeptFire, parts: DaemonComponents) -> DecisionSummary:
    try:
        decision: FireDecision = await decide_fire(fire.kept.params, parts, parts.dispatcher, parts.native)
    except RpcError as error:
        return DecisionSummary("error", None, None, error.message)
    hook = read_full_name(decision.layer, decision.hook, decision.name)
    return DecisionSummary(decision.verdict, hook or None, decision.cause, decision.reason)


def add_replay(parser: Parser) -> None:
    exits = (Exit.FINDINGS, Exit.BAD_DATA, Exit.NO_INPUT, Exit.UNAVAILABLE)
    parser.runs(run_replay, example="hooklatch replay --since 7d --against ~/new-hooks", exits=exits)
    parser.prints("cli.testing.replay:ReplayReport")
    parser.add_argument(
        "--against", metavar="DIR",
        help="the folder of the hooks to try, with a hooks.toml or hooks.d (default: those of now); they run with all "
        "that they do",
    )  # fmt: skip
    add_choice(parser)


def run_replay(arguments: argparse.Namespace) -> int:
    config = replay_config_path(arguments.against or find_config_file(arguments.config, os.environ))
    if arguments.since is None:
        arguments.since = parse_record_time(SINCE)
    selected = select_fires(arguments)
    run = Replay(selected)
    run_with_daemon(run.fire_all, config)
    for diagnostic in run.diagnostics:
        output.print_error(f"wrong with the hooks: {diagnostic}")
    if run.error is not None:
        raise run.error
    return output.say_result(
        describe_replay(run, selected), is_json=arguments.json, show=lambda: print_replay(run, selected),
        code=Exit.FINDINGS if run.diagnostics or any(pair.is_changed for pair in run.pairs) else Exit.OK,
    )  # fmt: skip


def replay_config_path(folder: str) -> str:
    folder = os.path.abspath(os.path.expanduser(folder))
    config = folder if folder.endswith(".toml") else os.path.join(folder, "hooks.toml")
    if not os.path.exists(config) and not os.path.isdir(os.path.join(os.path.dirname(config), "hooks.d")):
        raise CommandError(
            Exit.NO_INPUT, f"{folder} holds neither a hooks.toml nor a hooks.d; name the folder of hooks"
        )
    return config


def count_verdict_changes(run: Replay) -> list[VerdictChangeCount]:
    """Return the number of changes from each decision to each other one, the most frequent first."""
    counted_pairs = Counter((change.then.text, change.now.text) for change in list_decision_changes(run))
    return [VerdictChangeCount(*pair, times) for pair, times in counted_pairs.most_common()]


def list_decision_changes(run: Replay) -> list[DecisionPair]:
    return [pair for pair in run.pairs if pair.is_changed]


def print_replay(run: Replay, selected: SelectedFires) -> None:
    changed = list_decision_changes(run)
    if changed:
        output.say_table(
            ("then", "now", "times"), [(change.then, change.now, change.times) for change in count_verdict_changes(run)]
        )
        output.print_line()
        rows = [
            (
                read_subject(pair.fire.record), pair.then.text, pair.now.text, pair.fire.kept.event,
                pair.fire.tool or "", format_moment(pair.fire.record.get("at")), pair.fire.seq,
                "redacted" if pair.redacted else "",
            )
            for pair in changed[-SHOWN:]
        ]  # fmt: skip
        output.say_table(("subject", "then", "now", "event", "tool", "time", "record", ""), rows)
        if len(changed) > SHOWN:
            output.print_line(f"and {len(changed) - SHOWN} before these; --json has all")
        output.print_line()
    for text in list_replay_notes(run, selected):
        output.print_error(text)
    output.print_line(f"{format_count(len(run.pairs), 'decision')} fired again, {len(changed)} would change")


def list_replay_notes(run: Replay, selected: SelectedFires) -> list[str]:
    redacted = sum(bool(pair.redacted) for pair in run.pairs)
    notes: list[str] = []
    if redacted:
        notes.append(f"{redacted} of them had something redacted, which the hooks saw then and did not see now")
    if never := selected.unkept - selected.lost:
        notes.append(f"{format_count(never, 'decision')} could not be fired again: the payload is longer than {KEPT}")
    if selected.lost:
        notes.append(f"{format_count(selected.lost, 'decision')} had a payload that is not there any more: {LOST}")
    return notes


def describe_replay(run: Replay, selected: SelectedFires) -> ReplayReport:
    fires = [
        ReplayedDecision(
            seq=pair.fire.seq,
            at=pair.fire.record.get("at"),
            decision_id=pair.fire.kept.decision_id,
            session=pair.fire.record.get("session"),
            host=pair.fire.record.get("host"),
            event=pair.fire.kept.event,
            tool=pair.fire.tool,
            then=pair.then,
            now=pair.now,
            changed=pair.is_changed,
            redacted=list(pair.redacted),
        )
        for pair in run.pairs
    ]
    return ReplayReport(
        fired=len(fires),
        changed=sum(fire.changed for fire in fires),
        unkept=selected.unkept,
        lost=selected.lost,
        short=selected.short,
        redacted=sum(bool(fire.redacted) for fire in fires),
        diagnostics=run.diagnostics,
        changes=count_verdict_changes(run),
        fires=fires,
    )


NUMBERS = re.compile(r"([1-9]\d*)(?:-([1-9]\d*))?")
BELOW = (("cases", "testing.replay", "write decisions as cases for `hooklatch test`"),)


class CasesWritten(msgspec.Struct, frozen=True):
    """`record cases`: the number of cases in the file, and of those with a redacted payload."""

    cases: int
    file: str
    redacted: int


def add_record(parser: Parser) -> None:
    parser.explain(example="hooklatch record cases --seq 4711 --to policy-tests.jsonl")
    parser.add_commands(BELOW, required=True)


def add_cases(parser: Parser) -> None:
    exits = (Exit.BAD_DATA, Exit.NO_INPUT, Exit.IO_ERROR)
    parser.runs(run_record_cases, example="hooklatch record cases --seq 4711 --to policy-tests.jsonl", exits=exits)
    parser.prints("cli.testing.replay:CasesWritten")
    parser.add_argument("--to", metavar="FILE", default="cases.jsonl", help="a new file of JSON lines (cases.jsonl)")
    parser.add_argument(
        "--seq", metavar="N[-M]", action="append", type=parse_seq_range, default=[],
        help="only this record, or those from N to M; may be repeated",
    )  # fmt: skip
    add_choice(parser)


def parse_seq_range(text: str) -> range:
    """Parse a number of a record, or the first and the last of several."""
    match = NUMBERS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
    if last < first:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of a record; write 4711 or 4711-4720")
    return range(first, last + 1)


def run_record_cases(arguments: argparse.Namespace) -> int:
    written, notes = write_cases(arguments, arguments.seq, arguments.to)
    for note in notes:
        output.print_error(note)
    line = f"wrote {format_count(written.cases, 'case')} to {arguments.to}; run them: hooklatch test {arguments.to}"
    return output.say_result(written, line, is_json=arguments.json)


def write_cases(arguments: argparse.Namespace, numbers: Sequence[range], path: str) -> tuple[CasesWritten, list[str]]:
    """Write the decisions that options and numbers choose to a new file; return what was written, and notes on it.

    Raises:
        CommandError: there is nothing to write, or the file cannot be written.
    """
    if not path.endswith(".jsonl"):
        raise CommandError(Exit.USAGE, f"{path}: cases are written as JSON lines; name a file that ends with .jsonl")
    fires: list[KeptFire] = []
    notes: list[str] = []
    for fire in read_kept_fires(select_fires(arguments, numbers)):
        if find_ambiguity(bytes(fire.kept.payload)) is None:
            fires.append(fire)
        else:
            notes.append(f"record {fire.seq} is left out: its payload can be read in two ways, and a case in one alone")
    if not fires:
        fault = "no decision that matches can be written as a case, so no file was written"
        raise CommandError(Exit.NO_INPUT, "; ".join((*notes, fault)))
    data = b"".join(msgspec.json.encode(make_case(fire)) + b"\n" for fire in fires)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
        except OSError:
            os.unlink(path)  # half of the cases would be taken for all of them
            raise
    except FileExistsError:
        raise CommandError(Exit.IO_ERROR, f"{path} exists and is not overwritten; name another file") from None
    except OSError as error:
        raise CommandError(Exit.IO_ERROR, f"{path} cannot be written: {error.strerror}") from None
    notes += [
        f"record {fire.seq}: {', '.join(fire.redacted[:5])} is redacted; write what the guard needs"
        for fire in fires
        if fire.redacted
    ]
    return CasesWritten(len(fires), path, sum(bool(fire.redacted) for fire in fires)), notes


def make_case(fire: KeptFire) -> dict[str, Any]:
    """Return a case that expects the recorded decision."""
    record, kept = fire.record, fire.kept
    expect: dict[str, Any] = {"verdict": record["verdict"]}
    if record.get("hook"):
        expect["hook"] = record["hook"]
    if record["verdict"] in ("deny", "halt") and has_failed(record):
        expect["cause"] = record["cause"]
    case: dict[str, Any] = {
        "name": f"record {fire.seq}, {record.get('at')}: {fire.tool or kept.event}",
        "event": kept.event,
        "payload": kept.payload,
    }
    if kept.envelope.cwd is not None:
        case["cwd"] = kept.envelope.cwd
    return {**case, "expect": expect}

"""The rules that a week of the record suggests, as text: what a person answered alike, and what never happened.

Nothing of the record is trusted.  What it says is in a rule only as a literal, by `ascii` or as JSON, and an exception
in a guard is used only if the guard's file is otherwise what it was, as Python reads it.

    asks        an allow is an exception in the guard that asked, since no other guard's allow answers its ask; a deny
                is a guard of its own.  Either is for exactly one call: event, tool, folder, and input.  The exception
                is a decorator that changes an ask of the guard and no other answer, so its denials stay.
    folders     of a project, that were read and never written: a guard that asks
    gallery     guards that have nothing to object to in the whole week
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, cast

import msgspec

from hooklatch.cli.testing.payloads import KeptFire
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.light_json import is_list, is_object
from hooklatch.core.outcome_texts import read_hook_name
from hooklatch.core.subject import describe_subject, read_subject, read_tool_name
from hooklatch.guards.answered import describe_call
from hooklatch.record.storage.reading import Filters, filter_entries, read_forwards
from hooklatch_worker.author.tools import OTHER, UnclearToolError, arguments, find_tool_kind_by_name

__all__ = [
    "IMPORT", "JudgedCall", "Rule", "Week", "count_asking_others", "describe_records", "find_answered_rules",
    "find_folder_rules", "insert_exception", "list_tables", "may_be_allowed", "read_judged_call", "read_week",
]  # fmt: skip

MAX_INPUT = 2000  # characters of a call that an answer compares; a longer one is a file rather than a command
MAX_ANSWERED, MAX_FOLDERS = 20, 3  # rules of these kinds that are tried: those with the most evidence
DIGEST = 16  # characters: of two calls, an agent must not find one name
READS = 10  # of files in a folder, after which it counts as read
REFUSALS = ("deny", "halt")
NOT_JUDGED = ("unanswered", "overload", "draining", "audit", "abandoned")  # causes of denials that no guard decided
FOLDER_GUARD = '''\
"""Ask before an agent changes a folder that it only ever read.

Paths are compared with all links followed.  A command whose writing is unknown is asked about too.
"""

from hooklatch import ask, deny, hook
from hooklatch.guards import UnreadableCommandError, call_of, commands, paths_written
from hooklatch.guards.paths import PathResolver

FOLDER = {folder}


@hook("pre_tool_use", match=["write", "edit", "shell", "mcp", "other"])
def {name}(event):
    call = call_of(event)
    if call.fault is not None:
        return deny(call.fault)
    places = [place for path in call.paths for place in PathResolver(call.begin).of_text(path)]
    try:
        for line in call.lines:
            found = commands(line.text)
            resolver = PathResolver(line.folder, line.text, found)
            for command in found:
                if command.program is None:
                    return ask("which program this runs is decided only when it runs")
                places += [place for word in paths_written(command) for place in resolver.changed(word, command)]
    except UnreadableCommandError as error:
        return ask(f"the command cannot be judged: {{error}}")
    if any(not place.is_placed or place.may_be_below([FOLDER]) or place.may_be_above(FOLDER) for place in places):
        return ask(f"{{FOLDER}} was only ever read; may this change it?")
    return None
'''
REFUSING_GUARD = '''\
"""Refuse a call that a person refused each time when a guard asked: exactly this one."""

from hooklatch import deny, hook
from hooklatch.guards import is_same_call


@hook({event}{match})
def {name}(event):
    if is_same_call(event, {comparison}):
        return deny({reason})
    return None
'''
EXCEPTION = "allow_same_call"
IMPORT = f"from hooklatch.guards import {EXCEPTION}"
SOURCES = {"hook": ("hooklatch", "hook"), EXCEPTION: ("hooklatch.guards", EXCEPTION)}
# A guard that asks, to try an exception on: its own answers are on record, and need no second call.
ASKING_GUARD = f"""\
from hooklatch import ask, hook
{IMPORT}


@hook({{event}}{{match}})
{{exception}}
def {{name}}(event):
    return ask("as on record")
"""


class JudgedCall(NamedTuple):
    """A call as far as a rule compares it: `given` is its whole input, as JSON; `path` is the one file of its tool."""

    event: str
    tool: str
    kind: str
    cwd: str | None
    path: str | None
    given: str
    subject: str

    @property
    def key(self) -> tuple[str | None, ...]:
        return self.event, self.tool, self.cwd, self.given

    def write_exception(self, reason: str) -> str:
        """Return the decorator that allows this call and no other, where a hook asks."""
        return f"@{EXCEPTION}({self.write_comparison()}, reason={reason!a})"

    def write_comparison(self) -> str:
        return f"of={self.event!a}, tool={self.tool!a}, cwd={self.cwd!a}, call={self.given!a}"


class Rule(msgspec.Struct, frozen=True):
    """A rule to propose: its name, which is that of its file, and its evidence; `text` is the file to try it with.

    `asker` is the guard that asked, if the rule answers an ask.  `call` and `reason` are those of an answer.
    """

    kind: str
    name: str
    text: str
    subject: str
    count: int
    first: str
    last: str
    sessions: int
    asker: str | None = None
    call: JudgedCall | None = None
    reason: str = ""
    cases: tuple[Mapping[str, object], ...] = ()


class Week(NamedTuple):
    """Decisions, by their id, and the asks about them: those that waited, and those that a person answered."""

    decisions: dict[str, dict[str, Any]]
    asked: dict[str, dict[str, Any]]
    answered: dict[str, dict[str, Any]]


def read_week(folder: str, *, since: str, until: str) -> Week:
    """Read the decisions and asks of a record.

    Raises:
        NoRecordError: there is no record.
    """
    week = Week({}, {}, {})
    for record in filter_entries(read_forwards(folder), Filters(since=since, until=until)):
        decision_id = str(record.get("decision_id"))
        if record.get("kind") == "decision":
            week.decisions[decision_id] = record
        elif record.get("kind") == "ask" and record.get("action") == "opened":
            week.asked[decision_id] = record
        elif record.get("kind") == "ask" and record.get("cause") == "policy" and isinstance(record.get("by"), str):
            week.answered[decision_id] = record
    return week


def read_judged_call(fire: KeptFire) -> JudgedCall | None:
    """Return the call of a fire that a rule can compare; None if it is not wholly known, or not of a tool."""
    payload = cast("dict[str, object]", json.loads(bytes(fire.kept.payload)))
    tool, tool_input = payload.get("tool_name"), payload.get("tool_input")
    cwd = payload.get("cwd", fire.kept.envelope.cwd)
    if fire.redacted or fire.record.get("patch") is not None or not isinstance(cwd, str | None):
        return None
    if not isinstance(tool, str) or not isinstance(tool_input, dict):
        return None
    table = cast("dict[str, object]", tool_input)
    kind, known = find_tool_kind_by_name(tool), payload.get("tool_args")
    try:
        given = cast("dict[str, Any]", known) if isinstance(known, dict) else arguments(kind, table)
    except UnclearToolError:
        return None
    paths: object = given.get("paths", [given.get("path")])
    first = paths[0] if is_list(paths) and len(paths) == 1 else None
    path = first if kind in ("read", "write", "edit") and isinstance(first, str) else None
    event = fire.kept.event
    return JudgedCall(event, tool, kind, cwd, path, describe_call(payload), describe_subject(event, tool, payload))


def find_answered_rules(
    week: Week, calls: Mapping[str, JudgedCall], payloads: Mapping[str, object], *, times: int
) -> Iterator[Rule]:
    """Yield the rules that answer asks as a person did, each time alike and so many times: the most frequent first.

    Nothing is allowed that a guard, or a person, denied in that week, or may have denied where that is not known.
    """
    groups: dict[tuple[object, ...], list[str]] = {}
    for decision_id, answer in week.answered.items():
        call, ask = calls.get(decision_id), week.asked.get(decision_id, {})
        hooks = [row.get("hook") for row in list_tables(ask, "questions")]
        if call is None or len(call.given) > MAX_INPUT:
            continue
        if len(hooks) == 1 and isinstance(hooks[0], str) and answer.get("verdict"):
            groups.setdefault((hooks[0], call.key), []).append(decision_id)
    denied = [record for record in week.decisions.values() if was_denied(record)]
    ranked = sorted(groups.items(), key=lambda group: (-len(group[1]), str(group[0])))
    ranked = [(group, ids) for group, ids in ranked if len(ids) >= times][:MAX_ANSWERED]
    for (hook, _), ids in ranked:
        call, verdicts = calls[ids[0]], {str(week.answered[decision_id].get("verdict")) for decision_id in ids}
        if len(verdicts) != 1:
            continue
        verdict = verdicts.pop()
        spec = Catalogue.standard().get(call.event)
        if verdict not in ("allow", "deny") or spec is None or verdict not in spec.verdicts:
            continue
        # In a folder that is not known the same words may do anything.
        if verdict == "allow" and (call.cwd is None or not may_be_allowed(call, denied)):
            continue
        yield make_answered_rule(str(hook), call, verdict, ids, week, payloads)


def make_answered_rule(
    hook: str, call: JudgedCall, verdict: str, ids: Sequence[str], week: Week, payloads: Mapping[str, object]
) -> Rule:
    first, last, sessions = describe_records([week.decisions[decision_id] for decision_id in ids])
    reasons = {str(week.answered[decision_id].get("reason") or "") for decision_id in ids}
    own_reason = f": {reason}" if len(reasons) == 1 and (reason := next(iter(reasons))) else ""
    word = "allowed" if verdict == "allow" else "refused"
    reason = f"a person {word} exactly this {len(ids)} times by {last[:10]}{own_reason if verdict == 'deny' else ''}"
    name = make_name(word, call.subject, str((hook, call.key)))
    match = f", match={call.kind!a}" if call.kind != OTHER else ""
    text = (ASKING_GUARD if verdict == "allow" else REFUSING_GUARD).format(
        event=ascii(call.event), match=match, name=name, reason=ascii(reason), comparison=call.write_comparison(),
        exception=call.write_exception(reason),
    )  # fmt: skip
    case = {
        "name": f"{verdict}: what a person {word}", "event": call.event, "payload": payloads.get(ids[0]),
        **({"cwd": call.cwd} if call.cwd is not None else {}), "expect": verdict,
    }  # fmt: skip
    return Rule(
        verdict, name, text, call.subject, len(ids), first, last, sessions, hook, call, reason, (case,),
    )  # fmt: skip


def was_denied(record: Mapping[str, Any]) -> bool:
    """Return whether a guard or a person denied a decision, or a guard would have, that only observes."""
    is_denied = record.get("verdict") in REFUSALS and record.get("cause") not in NOT_JUDGED
    return is_denied or any(outcome.get("verdict") in REFUSALS for outcome in list_tables(record, "outcomes"))


def may_be_allowed(call: JudgedCall, denied: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether no denied decision is, or may be, about what this call is about, by any tool and in any folder."""
    for record in denied:
        if record.get("event") != call.event:
            continue
        subject, cwd = read_subject(record), as_text(record.get("cwd"))
        if subject in (read_tool_name(record), call.event):  # what was judged is not known
            return False
        known, wanted = subject.removesuffix("…"), call.subject.removesuffix("…")
        is_cut = (known, wanted) != (subject, call.subject)
        if known == wanted or (is_cut and (known.startswith(wanted) or wanted.startswith(known))):
            return False
        if call.path is not None and (
            call.path in subject or locate_path(cwd, known) == locate_path(call.cwd, call.path)
        ):
            return False
    return True


def find_folder_rules(week: Week, calls: Mapping[str, JudgedCall], *, times: int, home: str) -> Iterator[Rule]:
    """Yield the rules that ask before a folder of a project is changed which was read, and where nothing was written.

    Whether commands wrote there is seen when the rule is tried.  If the path of a written file is not known, its
    project has no such rule.
    """
    written: dict[str, list[str]] = {}
    blind: set[str] = set()
    for decision_id, record in week.decisions.items():
        tool, cwd, call = read_tool_name(record) or "", as_text(record.get("cwd")) or "", calls.get(decision_id)
        if find_tool_kind_by_name(tool) in ("write", "edit"):
            subject = call.path if call is not None and call.path is not None else read_subject(record)
            written.setdefault(cwd, []).append(locate_path(cwd, subject))
            # Cut, escaped, or of several files: their names are not known from that.
            if (call is None or call.path is None) and (subject == tool or set(subject) & set("…\\ ")):
                blind.add(cwd)
    reads: dict[tuple[str, str], list[str]] = {}
    for decision_id, call in calls.items():
        cwd = call.cwd or ""
        if call.kind != "read" or call.path is None or not cwd.startswith("/") or cwd in ("/", home) or cwd in blind:
            continue
        inside, _, rest = os.path.relpath(locate_path(cwd, call.path), cwd).partition("/")
        if rest and not inside.startswith("."):
            reads.setdefault((cwd, os.path.join(cwd, inside)), []).append(decision_id)
    everywhere = [path for paths in written.values() for path in paths]
    found: list[str] = []
    for (cwd, folder), ids in sorted(reads.items(), key=lambda row: (-len(row[1]), row[0])):
        is_written = any(f"{path}/".startswith(f"{folder}/") for path in everywhere)
        if len(ids) < READS or is_written or len(written.get(cwd, ())) < times or len(found) == MAX_FOLDERS:
            continue
        if os.path.realpath(folder) != folder or not os.path.isdir(folder):
            continue
        found.append(folder)
        name = make_name("kept", os.path.basename(folder), folder)
        cases = [
            {"name": f"{expect}: {path}", "event": "pre_tool_use", "cwd": cwd, "expect": expect,
             "payload": {"tool_name": "Write", "tool_input": {"file_path": path, "content": ""}}}
            for path, expect in ((f"{folder}/new", "ask"), (f"{folder}-not", "pass"))
        ]  # fmt: skip
        first, last, sessions = describe_records([week.decisions[decision_id] for decision_id in ids])
        text = FOLDER_GUARD.format(folder=ascii(folder), name=name)
        yield Rule("folder", name, text, folder, len(ids), first, last, sessions, cases=tuple(cases))


def count_asking_others(record: Mapping[str, Any], asker: str) -> int:
    """Return how many other guards than this one asked about a decision."""
    verdicts = Counter(
        read_hook_name(outcome)
        for outcome in list_tables(record, "outcomes")
        if outcome.get("verdict") == "ask" and not outcome.get("observed")
    )
    return verdicts.total() - verdicts[asker]


def describe_records(records: Sequence[Mapping[str, Any]]) -> tuple[str, str, int]:
    """Return the first and the last moment of records, and how many sessions they are of."""
    moments = sorted(str(record.get("at")) for record in records)
    sessions = {str(record.get("claimed_session") or record.get("session")) for record in records}
    return (moments[0], moments[-1], len(sessions)) if moments else ("", "", 0)


def make_name(word: str, subject: str, key: str) -> str:
    """Return the name of a rule, which can be that of a function and of a file for every subject."""
    words = re.sub(r"[^a-z0-9]+", "_", subject.lower())[:40].strip("_")
    return "_".join(filter(None, (word, words, sha256(key.encode(errors="surrogatepass")).hexdigest()[:DIGEST])))


def list_tables(record: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the tables of a list in a record, which nothing promises to be there."""
    rows: object = record.get(key)
    return [row for row in rows if is_object(row)] if is_list(rows) else []


def locate_path(cwd: str | None, path: str) -> str:
    return os.path.normpath(os.path.join(cwd or "/", path))


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def insert_exception(data: bytes, function: str, call: JudgedCall, reason: str) -> bytes | None:
    """Return a file's bytes with an exception for one call: a decorator next to a function, and its import above it.

    None if the function is marked by anything else than hooklatch, or the file uses it otherwise too, since an ask
    could become a denial there; if it has the exception; or if anything else of the file would mean something else.
    """
    try:
        tree = ast.parse(data)
        found = find_function(tree, function)
        if found is None or not is_only_hook(tree, found):
            return None
        exception = call.write_exception(reason)
        if any(dump_comparison(mark) == dump_comparison(parse_mark(exception)) for mark in found.decorator_list):
            return None
        lines = data.splitlines(keepends=True)
        at = found.lineno - 1
        top = min([found.lineno, *(mark.lineno for mark in found.decorator_list)]) - 1
        ending = b"\r\n" if lines[at].endswith(b"\r\n") else b"\n"
        is_there = any(is_import(node, EXCEPTION) and node.lineno <= top for node in tree.body)
        imported = [] if is_there else [IMPORT.encode() + ending]
        added = [*imported, *lines[top:at], exception.encode() + ending]
        changed = b"".join([*lines[:top], *added, *lines[at:]])
        new_tree = ast.parse(changed)
        new = find_function(new_tree, function)
        if new is None or ast.dump(new.decorator_list.pop()) != ast.dump(parse_mark(exception)):
            return None
        if not is_there and not is_import(new_tree.body.pop(new_tree.body.index(new) - 1), EXCEPTION):
            return None
        return changed if ast.dump(new_tree) == ast.dump(tree) else None
    except (SyntaxError, ValueError, RecursionError, IndexError):
        return None


def is_only_hook(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a hook and nothing else, and the names that mark it are those of hooklatch."""
    marks = [
        mark.func.id
        for mark in function.decorator_list
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name)
    ]
    if len(marks) != len(function.decorator_list) or not {*marks} <= {"hook", EXCEPTION}:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "*" in [alias.name for alias in node.names]:
            return False
        if node is not function and function.name in list_names(node):
            return False
        for name in ("hook", EXCEPTION):
            is_use = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            if name in list_names(node) and not is_use and not (node in tree.body and is_import(node, name)):
                return False
    return True


def list_names(node: ast.AST) -> list[object]:
    """Return the names that a statement or an expression uses or binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Attribute | ast.keyword | ast.Constant | ast.alias):
        return []
    values: list[object] = [value for _, value in ast.iter_fields(node)]
    return [part for value in values for part in (value if is_list(value) else [value])]


def is_import(node: ast.AST, name: str) -> bool:
    """Return whether a statement imports what hooklatch has by this name, and binds the name once."""
    if not isinstance(node, ast.ImportFrom) or list_names(node).count(name) != 1 or node.level:
        return False
    (alias,) = [alias for alias in node.names if (alias.asname or alias.name) == name]
    return (node.module, alias.name) == SOURCES[name]


def parse_mark(text: str) -> ast.expr:
    return ast.parse(text.removeprefix("@"), mode="eval").body


def dump_comparison(mark: ast.expr) -> list[str]:
    """Return the arguments of a decorator but its reason: exceptions with the same are the same."""
    given = mark.keywords if isinstance(mark, ast.Call) else []
    return [ast.dump(mark.func) if isinstance(mark, ast.Call) else ""] + [
        ast.dump(word) for word in given if word.arg != "reason"
    ]


def find_function(tree: ast.Module, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = [node for node in functions if node.name == name]
    return found[0] if len(found) == 1 else None

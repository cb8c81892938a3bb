"""A reader of policy test files: each case is a payload with the decision that is expected of it.

    TOML    [[case]] tables
    JSON    one case on each line

    cases = read_cases("policy-tests.toml", data, folder)

Cases are selected by their words, `-k "force and not mirror"`:

    either    both ("or" both)*
    both      term ("and" term)*
    term      "not" term | "(" either ")" | WORD
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.cli.testing.fire import read_payload
from hooklatch.core.fire_params import EnvelopeParams, FireParams
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import FireDecision
from hooklatch.core.tables import InvalidTableError, read_table
from hooklatch.dialects.find import describe_undefined_event
from hooklatch.hosts.find import UnknownHostError, find_host
from hooklatch.hosts.host import Host, UnreadableError
from hooklatch.service.config.toml_document import ConfigError, Diagnostic, TomlDocument, decode_toml_text
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = [
    "Case", "ExpectedDecision", "ExpressionError", "find_case_problem", "parse_selection", "read_cases",
    "refuse_payload_files",
]  # fmt: skip

Matches: TypeAlias = Callable[[str], bool]
MAX_WORDS = 200  # with parentheses: each may be a level of the parser's recursion
TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")
WORDS = ("and", "or", "not", "(", ")")


class ExpressionError(ValueError):
    """A text is not an expression; the message has the place of the error."""


def parse_selection(expression: str) -> Matches:
    """Return a test of whether a text has the words of an expression, as parts of its own words and in any case.

    Raises:
        ExpressionError: it is not an expression.
    """
    if len(tokens := TOKEN.findall(expression)) > MAX_WORDS:
        raise ExpressionError(f"-k has more than {MAX_WORDS} words and parentheses; write a shorter one")
    parser = SelectionParser(tokens, expression)
    matches = parser.parse_either()
    if parser.tokens:
        raise parser.make_error()
    return matches


class SelectionParser:
    """A parser by recursive descent, with a method for each rule of the grammar above."""

    def __init__(self, tokens: list[str], expression: str) -> None:
        self.tokens = tokens
        self._expression = expression

    def parse_either(self) -> Matches:
        terms = [self.parse_both()]
        while self.take("or"):
            terms.append(self.parse_both())
        return lambda text: any(matches(text) for matches in terms)

    def parse_both(self) -> Matches:
        terms = [self.parse_term()]
        while self.take("and"):
            terms.append(self.parse_term())
        return lambda text: all(matches(text) for matches in terms)

    def parse_term(self) -> Matches:
        if self.take("not"):
            inner = self.parse_term()
            return lambda text: not inner(text)
        if self.take("("):
            inner = self.parse_either()
            if not self.take(")"):
                raise self.make_error()
            return inner
        if not self.tokens or self.tokens[0] in WORDS:
            raise self.make_error()
        word = self.tokens.pop(0).lower()
        return lambda text: word in text.lower()

    def take(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False

    def make_error(self) -> ExpressionError:
        where = f"at {self.tokens[0]!r}" if self.tokens else "at its end"
        example = "write words joined by and, or, not and parentheses: -k 'force and not mirror'"
        return ExpressionError(f"-k {self._expression!r} cannot be read {where}; {example}")


EXPECT = 'a verdict (pass, allow, deny, ask, halt or claim), or a table such as { verdict = "deny", hook = "ID" }'

Verdict: TypeAlias = Literal["pass", "allow", "deny", "ask", "halt", "claim"]


class ExpectedDecision(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The expected decision.  Texts match if they are contained; `hook` is an id, with or without its layer.

    A refusal must have the cause policy unless another `cause` is named: a guard that crashes refuses as well, and a
    test that accepted this would hide that the guard does not work.
    """

    verdict: Verdict
    cause: str | None = None
    hook: str | None = None
    reason: str | None = None
    patch: dict[str, Any] | None = None
    inject: str | None = None
    append: str | None = None
    resume: str | None = None

    def differences(self, decision: FireDecision) -> list[str]:
        """Return how a decision differs from the expected one; empty if it does not."""
        cause, differences = self.cause, list[str]()
        if decision.verdict != self.verdict:
            differences.append(f"verdict is {decision.verdict}, not {self.verdict}")
        elif decision.is_refusal:
            cause = cause or "policy"
        if cause is not None and decision.cause != cause:
            differences.append(f"cause is {decision.cause}, not {cause}")
        if self.hook is not None and self.hook not in (
            decision.hook,
            f"{decision.layer}/{decision.hook}",
            decision.name,
        ):
            differences.append(f"hook is {decision.hook}, not {self.hook}")
        texts = {
            "reason": decision.reason,
            "append": decision.append,
            "resume": decision.resume,
            "inject": json.dumps(decision.inject, ensure_ascii=False) if decision.inject else None,
        }
        for key, text in texts.items():
            part: str | None = getattr(self, key)
            if part is not None and part not in (text or ""):
                differences.append(f"{key} is {text!r}, without {part!r}")
        patch: dict[str, Any] = {key: msgspec.json.decode(value) for key, value in (decision.patch or {}).items()}
        for key, value in (self.patch or {}).items():
            if key not in patch or patch[key] != value:
                differences.append(f"patch of {key} is {patch.get(key)!r}, not {value!r}")
        return differences


class CaseTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A case as it is written in a file."""

    expect: Annotated[Verdict | ExpectedDecision, Meta(examples=["deny"], extra={"is": EXPECT})]
    name: str | None = None
    event: Annotated[str, Meta(description="Needed unless the payload is a host's, which names its event.")] | None = (
        None
    )
    payload: dict[str, Any] | None = None
    payload_file: str | None = None
    host: Annotated[str, Meta(description="The payload is this host's own document.")] | None = None
    dialect: str | None = None
    cwd: str | None = None

    def __post_init__(self) -> None:
        if self.payload is not None and self.payload_file is not None:
            raise InvalidTableError("write either payload or payload_file", ("payload_file",))
        if self.event is None and self.host is None:
            raise InvalidTableError('it fires no event; write event = "pre_tool_use"')


class CaseFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A TOML file of cases."""

    case: list[CaseTable] = []


SESSION = "policy-test"  # the session of all cases in a file, except those whose host names its own


class Case(msgspec.Struct, frozen=True):
    """One case, and its place in the file."""

    name: str
    file: str
    line: int
    params: FireParams
    expected: ExpectedDecision
    is_hosted: bool = False

    def in_dialect(self, dialect: str) -> Case:
        """Return the case with this dialect, unless it names its own or has a host's payload."""
        if self.params.dialect is not None or self.is_hosted:
            return self
        return msgspec.structs.replace(self, params=msgspec.structs.replace(self.params, dialect=dialect))

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def read_cases(name: str, data: bytes, folder: str) -> list[Case]:
    """Read a file of cases; paths in it are relative to `folder`."""
    cases: list[Case] = []
    try:
        for line, error_place, table in (read_toml_cases if name.endswith(".toml") else read_jsonl_cases)(name, data):
            with error_place:
                params, expected = make_case_params(table, folder), table.expect
            expected = ExpectedDecision(expected) if isinstance(expected, str) else expected
            title = table.name or f"{params.event} #{len(cases) + 1}"
            cases.append(Case(title, name, line, params, expected, table.host is not None))
    except ConfigError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None
    if not cases:
        text = "it holds no case; write [[case]] tables, or a JSON object on each line of a .jsonl file"
        raise CommandError(Exit.BAD_DATA, f"{name}: {text}")
    return cases


def refuse_payload_files(name: str, data: bytes) -> None:
    """Refuse JSON Lines of cases of others that name a file: it could be any of this person's, and a guard gets it.

    Raises:
        CommandError: a case names a file, or is not a case.
    """
    try:
        for _, error_place, table in read_jsonl_cases(name, data):
            with error_place:
                if table.payload_file is not None:
                    what = f"the case {table.name!r} reads the file {table.payload_file!r}"
                    raise InvalidTableError(f"{what}; cases of a shared guard have their payload in them")
    except ConfigError as error:
        raise CommandError(Exit.BAD_DATA, f"{error}; nothing was run or written") from None


def find_case_problem(case: Case, event: str, catalogue: Catalogue) -> str | None:
    """Return why a case can never pass with this catalogue, or None; `event` is the canonical name of its event."""
    spec = catalogue.get(event)
    if spec is None:
        return f"{case.place}: {describe_undefined_event(catalogue, event)}"
    possible = ["pass", *(verdict for verdict in get_args(Verdict) if verdict in spec.verdicts)]
    if case.expected.verdict not in possible:
        return f"{case.place}: {spec.name} is never {case.expected.verdict!r}; it is {' or '.join(possible)}"
    return None


Entry: TypeAlias = tuple[int, AbstractContextManager[None], CaseTable]  # its line, and what gives errors their place


def read_toml_cases(name: str, data: bytes) -> Iterator[Entry]:
    document = TomlDocument(name, data)
    for index, table in enumerate(document.read(CaseFile).case):
        yield document.line_of(("case", index)), document.at("case", index), table


def read_jsonl_cases(name: str, data: bytes) -> Iterator[Entry]:
    for number, line in enumerate(decode_toml_text(name, data).split("\n"), 1):
        if not line.strip():
            continue
        with locate_line_errors(name, number):
            try:
                table = read_table(json.loads(line), CaseTable, "case")
            except InvalidTableError:
                raise
            except (ValueError, RecursionError) as error:
                raise InvalidTableError(f"not JSON: {error}") from None
            # A daemon refuses such a payload; a test of that has it in a payload_file, which is read as it is.
            if (problem := find_ambiguity(line.encode())) is not None:
                raise InvalidTableError(f"not JSON that every program reads alike: {problem}")
        yield number, locate_line_errors(name, number), table


@contextmanager
def locate_line_errors(name: str, number: int) -> Generator[None]:
    try:
        yield
    except InvalidTableError as error:
        raise ConfigError(Diagnostic(name, number, str(error))) from None


def make_case_params(table: CaseTable, folder: str) -> FireParams:
    """Return the params of a case's fire.

    Raises:
        InvalidTableError: its payload cannot be read, or is not one of the host or the event.
    """
    payload = read_case_payload(table, folder)
    cwd = table.cwd and os.path.abspath(os.path.join(folder, os.path.expanduser(table.cwd)))
    if table.host is not None:
        try:
            return read_native_params(find_host(table.host), table, payload, cwd)
        except UnknownHostError as error:
            raise InvalidTableError(str(error), ("host",)) from None
    envelope = EnvelopeParams(SESSION, cwd or os.getcwd())
    return FireParams(table.event or "", msgspec.Raw(payload), dialect=table.dialect, envelope=envelope)


def read_native_params(host: Host, table: CaseTable, payload: bytes, cwd: str | None) -> FireParams:
    """Read a payload as its host sent it.

    Raises:
        InvalidTableError: a daemon would refuse it from the host, or it is of another event than the case says.
    """
    installed = table.event if table.event in host.events else None  # a canonical name is compared below
    try:
        native = host.read(installed, payload, {})
        if not native.event:
            reason = f"{native.name!r} is an event of {host.title} that is never fired here"
            raise InvalidTableError(reason, ("payload",))
        params = host.make_fire(native).params
    except UnreadableError as error:
        raise InvalidTableError(str(error), ("payload",)) from None
    if table.event not in (None, native.name, params.event):
        reason = f"event is {table.event!r}, but the payload is of {native.name}"
        raise InvalidTableError(reason, ("event",))
    envelope = msgspec.structs.replace(params.envelope, cwd=cwd or params.envelope.cwd)
    return msgspec.structs.replace(params, envelope=envelope)


def read_case_payload(table: CaseTable, folder: str) -> bytes:
    if table.payload_file is not None:
        try:
            return read_payload(os.path.join(folder, os.path.expanduser(table.payload_file)))
        except CommandError as error:
            raise InvalidTableError(str(error), ("payload_file",)) from None
    try:
        return json.dumps(table.payload or {}, ensure_ascii=False, allow_nan=False, default=str).encode()
    except ValueError as error:  # also a lone surrogate
        raise InvalidTableError(f"payload is not JSON: {error}", ("payload",)) from None

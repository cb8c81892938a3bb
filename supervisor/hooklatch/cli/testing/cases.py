"""Reads policy test files: what to fire, and which decision to expect.  Knows their keys; does not run anything.

TOML    [[case]] tables
JSON    one case on each line
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast

import msgspec

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.testing.fire import read_payload
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import InvalidHookError, refuse_unknown_keys
from hooklatch.core.messages import Decision
from hooklatch.core.protocol import RpcError, convert, read_message
from hooklatch.hosts import claude_code
from hooklatch.service.config.custom_events import unknown_event
from hooklatch.service.dispatch.fires import EnvelopeParams, FireParams

__all__ = ["Case", "Expected", "problem_with", "read_cases"]

CASE_KEYS = ("name", "event", "payload", "payload_file", "host", "dialect", "cwd", "expect")
VERDICTS = ("pass", "allow", "deny", "ask", "halt", "claim")
HEADER = re.compile(r"\s*\[\[\s*case\s*\]\]")


class Expected(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The expected decision.  Texts match if they are contained; `hook` is an id, with or without its layer.

    A refusal must have the cause policy unless another `cause` is named: a guard that crashes refuses as well, and a
    test that accepted this would hide that the guard does not work.
    """

    verdict: str
    cause: str | None = None
    hook: str | None = None
    reason: str | None = None
    patch: dict[str, Any] | None = None
    inject: str | None = None
    append: str | None = None
    resume: str | None = None

    def differences(self, decision: Decision) -> list[str]:
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


SESSION = "policy-test"  # the session of all cases in a file, except those whose host names its own


class Case(msgspec.Struct, frozen=True):
    """One case, and its place in the file."""

    name: str
    file: str
    line: int
    params: FireParams
    expected: Expected
    is_hosted: bool = False

    def spoken_in(self, dialect: str) -> Case:
        """Return the case with this dialect, unless it names its own or comes from a host."""
        if self.params.dialect is not None or self.is_hosted:
            return self
        return msgspec.structs.replace(self, params=msgspec.structs.replace(self.params, dialect=dialect))

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


def read_cases(name: str, data: bytes, folder: str) -> list[Case]:
    """Read a file of cases; paths in it are relative to `folder`.

    Raises:
        CommandError: it is invalid; the text says where, and what to write.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        refuse(name, data[: error.start].count(b"\n") + 1, f"not UTF-8 ({error.reason}); save the file as UTF-8")
    reader = TomlCases(name, text) if name.endswith(".toml") else LineCases(name, text)
    cases = [CaseReader(reader, folder, number, *entry).read() for number, entry in enumerate(reader.entries(), 1)]
    if not cases:
        refuse(name, 0, "it holds no case; write [[case]] tables, or a JSON object on each line of a .jsonl file")
    return cases


def problem_with(case: Case, event: str, catalogue: Catalogue) -> str | None:
    """Return why a case can never pass with this catalogue, or None; `event` is the canonical name of its event."""
    spec = catalogue.get(event)
    if spec is None:
        return f"{case.place}: {unknown_event(catalogue, event)}"
    possible = ["pass", *(verdict for verdict in VERDICTS if verdict in spec.verdicts)]
    if case.expected.verdict not in possible:
        return f"{case.place}: {spec.name} is never {case.expected.verdict!r}; it is {' or '.join(possible)}"
    return None


def refuse(name: str, line: int, text: str) -> NoReturn:
    raise CommandError(Exit.BAD_DATA, f"{name}:{line}: {text}" if line else f"{name}: {text}")


class LineCases:
    """Cases as JSON lines."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text

    def entries(self) -> Iterator[tuple[int, object]]:
        for number, line in enumerate(self._text.split("\n"), 1):
            if not line.strip():
                continue
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                refuse(self.name, number, f"not JSON: {error}")

    def line_of(self, line: int, _key: str) -> int:
        return line


class TomlCases:
    """Cases as [[case]] tables; the parser reports no positions, so lines are found by searching."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self._lines = text.splitlines()

    def entries(self) -> Iterator[tuple[int, object]]:
        try:
            document = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            refuse(self.name, int(found[1]) if found else len(self._lines), f"not TOML: {error}")
        except (RecursionError, ValueError) as error:
            refuse(self.name, 0, f"not TOML: {error}")
        for key in document:
            if key != "case":
                refuse(self.name, self.line_of(0, key), f"a file of cases has no key {key!r}; write [[case]] tables")
        cases = document.get("case", [])
        if not isinstance(cases, list):
            refuse(self.name, self.line_of(0, "case"), "write [[case]], with two brackets, for each case")
        headers = [number for number, line in enumerate(self._lines, 1) if HEADER.match(line)]
        for index, case in enumerate(cast("list[object]", cases)):
            yield headers[index] if index < len(headers) else 0, case

    def line_of(self, line: int, key: str) -> int:
        """Return the line of a key within the case that begins at `line`; 0 stands for the whole file."""
        pattern = re.compile(rf"""(^|[\s{{,.\[])["']?{re.escape(key)}["']?\s*[=.\]]""")
        for number, text in enumerate(self._lines[line:], line + 1):
            if line and HEADER.match(text):
                break
            if pattern.search(text):
                return number
        return line


class CaseReader:
    """Reads one case, and reports each error with its line."""

    def __init__(self, reader: LineCases | TomlCases, folder: str, number: int, line: int, entry: object) -> None:
        self._reader = reader
        self._folder = folder
        self._number = number
        self._line = line
        if not isinstance(entry, Mapping):
            refuse(reader.name, line, f"a case is a table, not {entry!r:.60}")
        self._entry = cast("Mapping[str, Any]", entry)

    def read(self) -> Case:
        self._refuse_unknown(self._entry, CASE_KEYS, "a case")
        expected = self._expected()
        host = self._text("host")
        params = self._canonical() if host is None else self._native(host)
        name = self._text("name") or f"{params.event} #{self._number}"
        return Case(name, self._reader.name, self._line, params, expected, host is not None)

    def _expected(self) -> Expected:
        raw = self._entry.get("expect")
        if raw is None:
            self._refuse("case", 'it says nothing to expect; write expect = "deny"')
        table = cast("Mapping[str, Any]", {"verdict": raw} if isinstance(raw, str) else raw)
        if not isinstance(raw, str | Mapping) or "verdict" not in table:
            self._refuse("expect", 'expect is a verdict, or a table such as { verdict = "deny", hook = "ID" }')
        self._refuse_unknown(table, Expected.__struct_fields__, "expect")
        verdict: object = table["verdict"]
        if verdict not in VERDICTS:
            near = difflib.get_close_matches(str(verdict), VERDICTS, 1)
            self._refuse(
                "expect",
                f"there is no verdict {verdict!r}; {f'did you mean {near[0]!r}?' if near else choices(VERDICTS)}",
            )
        try:
            return msgspec.convert(table, Expected)
        except msgspec.ValidationError as error:
            self._refuse("expect", f"expect: {error}")

    def _canonical(self) -> FireParams:
        event = self._text("event")
        if event is None:
            self._refuse("case", 'it fires no event; write event = "pre_tool_use"')
        payload = msgspec.Raw(self._payload())
        envelope = EnvelopeParams(SESSION, self._cwd() or os.getcwd())
        return FireParams(event, payload, dialect=self._text("dialect"), envelope=envelope)

    def _native(self, host: str) -> FireParams:
        """Read a payload in its host's format."""
        if host != claude_code.HOST:
            self._refuse("host", f'there is no host {host!r}; write host = "{claude_code.HOST}"')
        try:
            native = claude_code.read(self._payload())
        except claude_code.UnreadableError as error:
            self._refuse("payload", str(error))
        if not native.event:
            self._refuse("payload", f"{native.name!r} is an event of Claude Code that is never fired here")
        if self._text("event") not in (None, native.name, native.event):
            self._refuse("event", f"event is {self._entry['event']!r}, but the payload is of {native.name}")
        line = claude_code.fire_request(native)
        if line is None:
            return FireParams(native.event, truncated=True)
        try:
            message = read_message(line)
            params = convert(getattr(message, "params", msgspec.Raw(b"{}")), FireParams)
        except RpcError as error:
            self._refuse("payload", str(error))
        cwd = self._cwd() or params.envelope.cwd
        return msgspec.structs.replace(params, envelope=msgspec.structs.replace(params.envelope, cwd=cwd))

    def _payload(self) -> bytes:
        given, name = self._entry.get("payload"), self._text("payload_file")
        if given is not None and name is not None:
            self._refuse("payload_file", "write either payload or payload_file")
        if name is not None:
            try:
                return read_payload(os.path.join(self._folder, os.path.expanduser(name)))
            except CommandError as error:
                self._refuse("payload_file", str(error))
        if not isinstance(given, Mapping | None):
            self._refuse("payload", f"payload is a table, not {given!r:.60}")
        try:
            return json.dumps(given or {}, ensure_ascii=False, allow_nan=False, default=str).encode()
        except ValueError as error:  # includes text that is not valid Unicode
            self._refuse("payload", f"payload is not JSON: {error}")

    def _cwd(self) -> str | None:
        cwd = self._text("cwd")
        return None if cwd is None else os.path.abspath(os.path.join(self._folder, os.path.expanduser(cwd)))

    def _text(self, key: str) -> str | None:
        value = self._entry.get(key)
        if value is not None and not isinstance(value, str):
            self._refuse(key, f"{key} is a string, not {value!r:.60}")
        return value

    def _refuse_unknown(self, table: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
        try:
            refuse_unknown_keys(table, known, what)
        except InvalidHookError as error:
            self._refuse(next(key for key in table if key not in known), str(error))

    def _refuse(self, key: str, text: str) -> NoReturn:
        line = self._line if key == "case" else self._reader.line_of(self._line, key)
        refuse(self._reader.name, line, text)


def choices(words: tuple[str, ...]) -> str:
    return f"there are {', '.join(words)}"

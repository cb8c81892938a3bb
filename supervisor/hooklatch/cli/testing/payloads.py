"""The payloads that `dev` fires: those that were named, cases, or recorded events that the hooks are on."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.testing.cases import CaseTable, ExpectedDecision, make_case_params
from hooklatch.cli.testing.policy_tests import read_cases
from hooklatch.core.fire_params import FireParams
from hooklatch.core.hooks.registry import EVERY_GATE, Hook
from hooklatch.core.tables import InvalidTableError
from hooklatch.errors import explain_error
from hooklatch.service.parts import DaemonComponents
from hooklatch.testing.events import STANDARD, event
from hooklatch.testing.recorded import list_recorded_events
from hooklatch.testing.workers import is_called
from hooklatch_worker.author.ambiguity import find_ambiguity

__all__ = ["PayloadCase", "select_payload_cases"]

MAX_TITLE = 70  # characters of a payload's title


class PayloadCase(msgspec.Struct, frozen=True):
    """One payload to fire, and the expected decision if it comes from a case."""

    title: str
    params: FireParams
    expected: ExpectedDecision | None = None


def select_payload_cases(
    parts: DaemonComponents, hooks: Sequence[Hook], arguments: argparse.Namespace, function: str | None
) -> list[PayloadCase]:
    """Return the payloads to fire at these hooks.

    Raises:
        CommandError: no hook has that name, a payload or a case cannot be read, or its event is not known.
    """
    chosen = [hook for hook in hooks if function is None or is_called(hook, function)]
    if not chosen:
        if not hooks:
            raise CommandError(
                Exit.NO_INPUT, "it has no hooks: mark a function with @hook, or declare one in hooks.toml"
            )
        names = ", ".join(hook.id for hook in hooks)
        raise CommandError(Exit.NO_INPUT, f"there is no hook {function!r}; there are: {names}")
    events = list(dict.fromkeys(hook.event for hook in chosen if hook.event != EVERY_GATE))
    if arguments.event is not None and parts.registries.catalogue.get(arguments.event) is None:
        raise CommandError(Exit.USAGE, f"there is no event {arguments.event!r}; see: hooklatch events")
    cases = [
        PayloadCase(case.name, case.params, case.expected) for name in arguments.cases for case in read_cases(name)
    ]
    for name in arguments.payload:
        cases += [make_payload_case(payload, arguments, events, name) for payload in read_payloads(name)]
    if cases:
        return cases
    event_names = [arguments.event] if arguments.event is not None else events
    return [*list_recorded_payloads(event_names), *make_payloads(event_names)]


def read_payloads(name: str) -> list[dict[str, Any]]:
    try:
        if name == "-":
            text = sys.stdin.read() if sys.stdin else ""
        else:
            with open(name, encoding="utf-8") as file:
                text = file.read()
    except (OSError, ValueError) as error:
        reason = explain_error(error)
        raise CommandError(Exit.NO_INPUT, f"the payload {name} cannot be read: {reason}") from None
    texts = [text]
    try:
        try:
            documents = [json.loads(text)]
        except ValueError:
            texts = [line for line in text.splitlines() if line.strip()]
            documents = [json.loads(line) for line in texts]
    except (ValueError, RecursionError) as error:
        raise CommandError(Exit.BAD_DATA, f"{name} is neither JSON nor JSON lines: {error}") from None
    for document, source in zip(documents, texts, strict=True):
        if not isinstance(document, dict):
            raise CommandError(Exit.BAD_DATA, f"{name}: a payload is a JSON object, not {json.dumps(document)[:60]}")
        if (problem := find_ambiguity(source.encode())) is not None:
            raise CommandError(Exit.BAD_DATA, f"{name}: a daemon would refuse this payload: {problem}")
    return cast("list[dict[str, Any]]", documents)


def make_payload_case(
    payload: dict[str, Any], arguments: argparse.Namespace, events: Sequence[str], name: str
) -> PayloadCase:
    event_name = arguments.event
    if event_name is None and arguments.host is None:
        if len(events) != 1:
            raise CommandError(
                Exit.USAGE, f"{name}: its event is one of {', '.join(events)}; say which one: --event {events[0]}"
            )
        event_name = events[0]
    return read_payload_case(payload, event_name, arguments.host, name)


def read_payload_case(payload: dict[str, Any], event_name: str | None, host: str | None, name: str) -> PayloadCase:
    try:
        params = make_case_params(CaseTable(expect="pass", event=event_name, payload=payload, host=host), os.getcwd())
    except InvalidTableError as error:
        raise CommandError(Exit.BAD_DATA, f"{name}: {error}") from None
    return PayloadCase(format_payload_title(params), params)


def list_recorded_payloads(events: Iterable[str]) -> list[PayloadCase]:
    names = set(events)
    cases = [
        read_payload_case(recorded_event.payload, None, recorded_event.host, "a recorded payload")
        for recorded_event in list_recorded_events()
    ]
    return [case for case in cases if case.params.event in names]


def make_payloads(events: Iterable[str]) -> list[PayloadCase]:
    """Return an event with the fields that hosts always send, for each event that no recorded session has."""
    known = {case.params.event for case in list_recorded_payloads(events)}
    cases: list[PayloadCase] = []
    for name in events:
        if name not in known and name in STANDARD:
            params = FireParams(name, msgspec.Raw(msgspec.json.encode(event(name).payload)))
            cases.append(PayloadCase(format_payload_title(params), params))
    return cases


def format_payload_title(params: FireParams) -> str:
    """Return a line by which payloads can be told apart: the event, the matched field and the first argument."""
    payload: dict[str, Any] = msgspec.json.decode(params.payload)
    spec = STANDARD.get(params.event)
    matched = payload.get(spec.match) if spec is not None and spec.match is not None else None
    tool_input = payload.get("tool_input")
    first = next(iter(cast("dict[str, Any]", tool_input).values()), None) if isinstance(tool_input, dict) else None
    texts = [str(text) for text in (params.event, matched, first) if text is not None]
    title = " ".join(": ".join(texts[-2:]).split()) if len(texts) > 2 else " ".join(" ".join(texts).split())
    title = f"{texts[0]} {title}" if len(texts) > 2 else title
    return title if len(title) <= MAX_TITLE else f"{title[:MAX_TITLE]}…"

"""Targets of the fuzzer: what other systems say, and what is said to them."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec

from fuzz.checks import document, said
from fuzz.wires import read_verdict
from hooklatch.core.fire_params import FireParams
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.definitions import InvalidHookError, read_definition
from hooklatch.core.hooks.matchers import MatcherError
from hooklatch.core.payload import Payload, PayloadError
from hooklatch.core.protocol import RpcError
from hooklatch.dialects import BUILT_IN
from hooklatch.dialects.custom import build_dialect
from hooklatch.dialects.dialect import InvalidDialectError
from hooklatch.dialects.find import load_built_in
from hooklatch.dialects.reading import translate_answer
from hooklatch.dialects.registration import read_matcher
from hooklatch.dialects.rendering import render_decision
from hooklatch.dialects.translation import translate_to_canonical, translate_to_native
from hooklatch.hosts.find import find_host, list_hosts
from hooklatch.hosts.host import UnreadableError, make_denied_decision
from hooklatch.service.dispatch.dialect_fires import decode_payload, read_native_hooks
from hooklatch_worker.author import verdicts

__all__ = ["read_dialect", "read_native", "read_rendered", "read_registrations", "read_host"]

CATALOGUE = Catalogue.standard()
DIALECTS = tuple(map(load_built_in, BUILT_IN))


def read_dialect(data: bytes) -> None:
    table = document(data)
    if not isinstance(table, dict):
        try:
            table = tomllib.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
    try:
        dialect = build_dialect(table)
    except InvalidDialectError as error:
        said(error)
        return
    for name in dialect.events:
        for answer in ({}, {"deny": "no"}, "ok", 2, table):
            try:
                translate_answer(dialect, name, answer)
            except verdicts.GarbageError:
                continue


def read_native(data: bytes) -> None:
    """A native fire: its payload inwards and outwards, and an answer in that system's words."""
    first, _, second = data.partition(b"\xff")
    try:
        payload = decode_payload(FireParams("", msgspec.Raw(first)))
    except RpcError as error:
        return said(error)
    answer = document(second)
    for dialect in DIALECTS:
        for name in dialect.events:
            try:
                fed = translate_to_canonical(dialect, name, payload)
            except PayloadError as error:
                said(error)
                continue
            for one in fed:
                translate_to_native(dialect, name, one.payload, feed=one.feed, context=payload)
            try:
                verdict = translate_answer(dialect, name, answer, shown=payload)
            except (verdicts.GarbageError, PayloadError):
                continue
            # As the daemon takes it, from its JSON.
            read_verdict(msgspec.json.encode(verdict))
    return None


def read_rendered(data: bytes) -> None:
    """A decision put into each system's words: a refusal never becomes anything else."""
    decision = document(data)
    if not isinstance(decision, dict):
        return
    try:
        made = msgspec.to_builtins(msgspec.convert(decision, WireDecision))
    except msgspec.ValidationError:
        return
    for dialect in DIALECTS:
        for name in dialect.events:
            msgspec.json.encode(render_decision(dialect, name, made, (), {}).value)


class WireDecision(msgspec.Struct):
    """The shape that our own decisions have, where a renderer counts on it."""

    verdict: str = "deny"
    cause: str | None = None
    reason: str | None = None
    layer: str | None = None
    hook: str | None = None
    patch: dict[str, Any] | None = None
    append: str | None = None
    resume: str | None = None
    value: Any = None
    inject: list[dict[str, Any]] = []
    context: dict[str, Any] = {}
    warnings: list[str] = []
    outcomes: list[dict[str, Any]] = []


def read_registrations(data: bytes) -> None:
    table = document(data)
    for dialect in DIALECTS:
        if isinstance(table, dict):
            for native in read_native_hooks(dialect, table, CATALOGUE):
                for written in (native.table, {**native.table, "problem": str(native.fault)}):
                    try:
                        read_definition(written)
                    except InvalidHookError as error:
                        said(error)
        try:
            read_matcher(dialect, table)
        except MatcherError as error:
            said(error)


def read_host(data: bytes) -> None:
    """Read a document as each host's, for each of its events; what can be read is answered, too."""
    for name in list_hosts():
        host = find_host(name)
        for event in (None, *host.events):
            try:
                native = host.read(event, data, {})
                if not native.event:
                    continue
                request = host.make_fire(native)
            except UnreadableError as error:
                said(error)
                host.failure(error.event, error.cause, str(error))
                continue
            payload = Payload(bytes(request.params.payload))
            assert native.document.keys() <= payload.fields.keys() or name == "generic"
            host.answer(native, make_denied_decision(native.event, "policy", "no"))

"""Targets of the fuzzer: what people write, patterns and definitions and whole files."""

from __future__ import annotations

import msgspec

from fuzz.checks import document, said
from hooklatch.cli.terminal.parser import CommandError
from hooklatch.cli.testing.cases import read_cases
from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition
from hooklatch.core.hooks.conditions import InvalidConditionError, PayloadFacts, UnreadableFieldError, compile_where
from hooklatch.core.hooks.definitions import InvalidHookError, read_definition
from hooklatch.core.hooks.matchers import MatcherError, compile_matcher
from hooklatch.core.payload import Payload
from hooklatch.core.tables import InvalidTableError, read_table
from hooklatch.dialects.dialect import UnknownNativeEventError
from hooklatch.importing import UnreadableFileError, read_hooks
from hooklatch.importing.settings_files import read_settings
from hooklatch.importing.writing import write_toml
from hooklatch.service.config.configuration import ConfigError, FileConfig, read_config
from hooklatch_worker import wire

__all__ = [
    "compile_pattern",
    "read_definitions",
    "read_configuration",
    "read_settings_file",
    "import_hooks",
    "read_custom_event",
    "read_policy_cases",
]

CATALOGUE = Catalogue.standard()
GATE = Catalogue.standard()["pre_tool_use"]
VALUES = ("", "Bash", "mcp__files__read", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "é\n\0")


def compile_pattern(data: bytes) -> None:
    source = document(data)
    text = data.decode("utf-8", "replace")
    for form in (source, {"regex": text}, {"regex": text, "search": True}, {"glob": text}, [text], text):
        try:
            matcher = compile_matcher(form)
        except MatcherError as error:
            said(error)
            continue
        for value in VALUES:
            matcher.matches(value)
        assert compile_matcher(matcher.source).text == matcher.text


FIXED = ({"command": "git push"}, {"path": ["/etc/**", "*.pem"]}, {"tool_input.a.b": ["> 5", "x"]})


def judge_conditions(data: bytes) -> None:
    source, text = document(data), data.decode("utf-8", "replace")
    inputs: list[object] = [source, {"command": text, "a": source}, {"file_path": text}, {"a": [{"b": source}]}]
    for form in (source, {"command": text}, {"path": text}, {"x": {"glob": text}}, *FIXED):
        try:
            where = compile_where(form)
        except InvalidConditionError as error:
            said(error)
            continue
        for tool in ("Bash", "Write", text) if where is not None else ():
            for given in inputs:
                facts = PayloadFacts(GATE, Payload(msgspec.json.encode({"tool_name": tool, "tool_input": given})), "/w")
                try:
                    assert where.may_hold(facts) in (True, False)
                except UnreadableFieldError as error:
                    said(error)


def read_definitions(data: bytes) -> None:
    table = document(data)
    try:
        hooks = read_definition(table)
    except InvalidHookError as error:
        said(error)
    else:
        msgspec.json.encode([[hook.id, hook.event, hook.matcher.source, hook.timeout, hook.run] for hook in hooks])
        assert [hook.id for hook in read_definition(table, is_lenient=True)] == [hook.id for hook in hooks]


def read_configuration(data: bytes) -> FileConfig | None:
    line = 0
    try:
        config = read_config("/etc/hooklatch/hooks.toml", data)
    except ConfigError as error:
        said(error)
        config, line = None, error.diagnostic.line
    assert line <= len(data.decode("utf-8-sig", "replace").splitlines()) + 1, "a line that is not there"
    if config is None:
        return None
    for limits in filter(None, [config.limits]):
        wire.encode_body(limits.worker)  # it must travel to the zygote
    return config


def read_settings_file(data: bytes) -> None:
    try:
        read_settings("/etc/hooklatch/hooks.d/settings.json", data)
    except ConfigError as error:
        said(error)


def import_hooks(data: bytes) -> None:
    for name in ("settings.json", "hooks.toml", "settings"):
        try:
            imported = read_hooks(name, data)
        except UnreadableFileError as error:
            said(error)
            continue
        text = write_toml(imported, origin=name, stem="imported")
        config = read_config("/imported.toml", text.encode())
        assert len(config.hooks) == sum(hook.problem is None for hook in imported.hooks), "what was written differs"


def read_custom_event(data: bytes) -> None:
    table = document(data)
    if not isinstance(table, dict):
        return
    try:
        definition = read_table(table, EventDefinition, "event")
        catalogue = CATALOGUE.with_custom([definition])
    except InvalidTableError as error:
        said(error)
        return
    spec = catalogue[definition.name]
    assert spec.fails_closed == (spec.model == "gate")


def read_policy_cases(data: bytes) -> None:
    for name in ("cases.toml", "cases.jsonl"):
        try:
            read_cases(name, data, "/")
        except (CommandError, UnknownNativeEventError) as error:
            said(error)

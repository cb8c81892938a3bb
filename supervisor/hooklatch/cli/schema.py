"""The command `schema`: JSON Schemas of hooks.toml and of each command's `--json`, made from the shapes themselves.

A command declares the shapes of what it prints (`Parser.prints`).  Those of commands that import the standard library
alone, to start fast, are here.

The keys of a schema stay.  A later version may add keys, so no schema forbids others.  hooks.toml is the exception: the
daemon too refuses a key that it does not know.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Literal, TypedDict, get_type_hints

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.answers import EventStatus, HookLoad
from hooklatch.core.hooks.registry import HookState
from hooklatch.core.status_answers import ChildStatus, HealthFinding, ProjectStatus

__all__ = [
    "AbsentDaemon", "DaemonTree", "EventsOutput", "RefusalOutput", "StatusLine", "StopOutput", "TopHook", "TopOutput",
    "TrustedProjects",
    "WhyOutput", "ExplainedCause", "CONFIG", "add_schema", "list_schema_names", "schema_file_name", "find_schema",
    "format_schema",
]  # fmt: skip

DRAFT = "https://json-schema.org/draft/2020-12/schema"
CONFIG = "hooks.toml"


class StopOutput(TypedDict):
    """`stop`: the daemon has ended, after so many `seconds`."""

    stopped: Literal[True]
    pid: int
    seconds: float


class DaemonTree(TypedDict):
    """`status --tree`: the daemon's own parts."""

    health: Literal["green", "red"]
    tree: list[ChildStatus]


class StatusLine(TypedDict):
    """`status --line`: the line."""

    line: str


class AbsentDaemon(TypedDict):
    """`status` without a daemon: the end of the last one, and its time."""

    health: Literal["stopped", "failed", "killed", "elsewhere", "silent", "unknown"]
    since: str | None
    pid: int | None
    message: str


class TrustedProjects(TypedDict):
    """`trust --list`."""

    projects: list[ProjectStatus]


class ExplainedCause(TypedDict):
    """A cause or a word of the status: what happened, what that means, and what to do."""

    cause: str
    happened: str
    means: str
    do: str


class WhyOutput(TypedDict):
    """`why`: the cause that was named, or all."""

    causes: list[ExplainedCause]


class RefusalOutput(TypedDict):
    """`why --last`: the record of the session's last refusal, as in `log`; null if nothing was refused."""

    refusal: dict[str, Any] | None


class EventsOutput(TypedDict):
    """`events`; `live` is false for the standard catalogue, without a daemon."""

    events: list[EventStatus]
    live: bool


class TopHook(TypedDict):
    """A hook: its calls since the daemon's start, and the load of its workers; null where that is not known."""

    name: str
    event: str
    state: HookState
    calls: int
    calls_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    failures: dict[str, int]
    load: HookLoad | None


class TopOutput(TypedDict):
    """`top`: the rates between two reports; the hooks in the order of `--sort`."""

    health: Literal["green", "red"]
    wrong: list[HealthFinding]
    fires_per_s: float | None
    hooks: list[TopHook]


def add_schema(parser: Parser) -> None:
    parser.runs(run_schema, example="hooklatch schema hooks.toml", exits=(Exit.NO_INPUT, Exit.CANNOT_CREATE))
    parser.add_argument(
        "name", metavar="NAME", nargs="*", help="hooks.toml, or a command such as `hooks show`; without one, list them"
    )
    parser.add_argument("--all", metavar="DIR", help="write each of them to a file in this directory, which is made")


def run_schema(arguments: argparse.Namespace) -> int:
    name = " ".join(arguments.name)
    if arguments.all is not None:
        return write_schemas(arguments.all)
    if not name:
        names = list_schema_names()
        return output.say_result(names, is_json=arguments.json, show=lambda: output.say_text("\n".join(names)))
    schema = find_schema(name)
    if schema is None:
        from hooklatch.core.text import suggest_name

        suggestion = suggest_name(name, list_schema_names())
        raise CommandError(Exit.NO_INPUT, f"there is no schema of {name!r}{suggestion} (see: hooklatch schema)")
    return output.say_result(schema, is_json=arguments.json, show=lambda: output.say_text(format_schema(schema)))


def write_schemas(folder: str) -> int:
    names = list_schema_names()
    try:
        os.makedirs(folder, exist_ok=True)
        for name in names:
            with open(os.path.join(folder, schema_file_name(name)), "w", encoding="utf-8") as file:
                file.write(format_schema(find_schema(name) or {}) + "\n")
    except OSError as error:
        raise CommandError(Exit.CANNOT_CREATE, f"{error.filename} cannot be written: {error.strerror}") from None
    output.say_text(f"{len(names)} schemas are in {folder}")
    return Exit.OK


def schema_file_name(name: str) -> str:
    """Return the name of a schema's file, such as `hooks-show.schema.json`."""
    return f"{name.replace(' ', '-')}.schema.json"


def format_schema(schema: dict[str, Any]) -> str:
    """Return the text of a schema, indented since it is read in editors and compared by git."""
    import json

    return json.dumps(schema, indent=2, ensure_ascii=False)


@functools.cache
def find_printing_commands() -> dict[str, tuple[str, ...]]:
    """Return the commands that print JSON, each with the names of the shapes of it."""
    from hooklatch.cli.commands import build_command_line

    return dict(list_printing_commands(build_command_line(), ""))


def list_printing_commands(parser: Parser, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if parser.declared().shapes:
        yield name, parser.shapes
    for word, below in parser.commands.items():
        yield from list_printing_commands(below, f"{name} {word}".strip())


def list_schema_names() -> list[str]:
    """Return the names of all schemas: hooks.toml, and the commands."""
    return [CONFIG, *find_printing_commands()]


def load_shape(name: str) -> Any:
    """Return a shape by its module below `hooklatch` and its name there, such as `core.answers:HooksAnswer`."""
    module, _, shape = name.partition(":")
    return getattr(import_module(f"hooklatch.{module}"), shape)


def join_tables() -> type:
    """Return the shape of the main hooks.toml, with the tables of all products."""
    from hooklatch.products import TABLES, list_products, load_product
    from hooklatch.service.config.configuration import ConfigFile
    from hooklatch.service.config.settings import MainTable

    structs: dict[str, Any] = {name: load_product(TABLES, name, MainTable).struct for name in list_products(TABLES)}
    inner = [name for name in structs if "." in name]  # such as ask.notify: a key of one of our own tables
    for path in inner:
        table, _, key = path.partition(".")
        structs[table] = extend(get_type_hints(ConfigFile)[table], {key: structs.pop(path)})
    return extend(ConfigFile, dict(sorted(structs.items())))


def extend(struct: type, tables: dict[str, Any]) -> type:
    """Return a struct of the same name with these tables as further keys, or in place of its own."""
    import msgspec

    fields = [(name, table | msgspec.UnsetType, msgspec.UNSET) for name, table in tables.items()]
    return msgspec.defstruct(
        struct.__name__, fields, bases=(struct,), namespace={"__doc__": struct.__doc__}, frozen=True,
        forbid_unknown_fields=True,
    )  # fmt: skip


def find_schema(name: str) -> dict[str, Any] | None:
    """Return the schema of hooks.toml, or of a command's output; None if there is none of that name."""
    import msgspec

    if name == CONFIG:
        shapes: tuple[Any, ...] = (join_tables(),)
        title = "hooks.toml, of hooklatch"
    elif (known := find_printing_commands().get(name)) is not None:
        shapes = tuple(map(load_shape, known))
        title = f"hooklatch {name} --json"
    else:
        return None
    schemas, definitions = msgspec.json.schema_components(shapes, ref_template="#/$defs/{name}")
    if name == CONFIG:
        from hooklatch.cli.config_keys import describe_tables

        describe_tables(definitions)
    shape = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = inspect.cleandoc(definition["description"])
    return {"$schema": DRAFT, "title": title, **shape, "$defs": dict(sorted(definitions.items()))}

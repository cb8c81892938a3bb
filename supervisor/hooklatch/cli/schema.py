"""The command `schema`: JSON Schemas of hooks.toml and of each command's `--json`, made from the structs themselves.

The keys of a schema stay.  A later version may add keys, so no schema forbids others.  hooks.toml is the exception: the
daemon too refuses a key that it does not know.
"""

from __future__ import annotations

import argparse
import inspect
import os
from typing import Any

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.cli.terminal.parser import Parser

__all__ = [
    "CONFIG",
    "UNDESCRIBED",
    "add_schema",
    "list_schema_names",
    "schema_file_name",
    "find_schema",
    "format_schema",
]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
CONFIG = "hooks.toml"
UNDESCRIBED = ("mcp", "schema")  # they print another program's lines, and schemas


def add_schema(parser: Parser) -> None:
    parser.runs(run_schema, example="hooklatch schema hooks.toml", exits=(Exit.NO_INPUT, Exit.CANNOT_CREATE))
    parser.add_argument(
        "name", metavar="NAME", nargs="*", help="hooks.toml, or a command such as `hooks show`; without one, list them"
    )
    parser.add_argument("--all", metavar="DIR", help="write each of them to a file in this directory, which is made")


def run_schema(arguments: argparse.Namespace) -> int:
    """Print a schema, or the names of all."""
    name = " ".join(arguments.name)
    if arguments.all is not None:
        return write_schemas(arguments.all)
    if not name:
        output.say_json(list_schema_names()) if arguments.json else output.say_text("\n".join(list_schema_names()))
        return Exit.OK
    schema = find_schema(name)
    if schema is None:
        from hooklatch.core.text import suggest_name

        suggestion = suggest_name(name, list_schema_names())
        raise CommandError(Exit.NO_INPUT, f"there is no schema of {name!r}{suggestion} (see: hooklatch schema)")
    output.say_json(schema) if arguments.json else output.say_text(format_schema(schema))
    return Exit.OK


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


def list_outputs() -> dict[str, tuple[Any, ...]]:
    from hooklatch.cli import daemon_outputs, fleet_outputs, hook_outputs, live_outputs, setup_outputs

    return {
        **setup_outputs.OUTPUTS,
        **daemon_outputs.OUTPUTS,
        **hook_outputs.OUTPUTS,
        **live_outputs.OUTPUTS,
        **fleet_outputs.OUTPUTS,
    }


def list_schema_names() -> list[str]:
    """Return the names of all schemas: hooks.toml, and the commands."""
    return [CONFIG, *list_outputs()]


def join_tables() -> type:
    """Return the shape of the main hooks.toml, with the tables of all products."""
    import msgspec

    from hooklatch.products import TABLES, list_products, load_product
    from hooklatch.service.config.configuration import ConfigFile
    from hooklatch.service.config.main_tables import MainTable

    products = [(name, load_product(TABLES, name, MainTable).struct) for name in sorted(list_products(TABLES))]
    fields = [(name, struct | msgspec.UnsetType, msgspec.UNSET) for name, struct in products]
    return msgspec.defstruct(
        "ConfigFile", fields, bases=(ConfigFile,), namespace={"__doc__": ConfigFile.__doc__}, frozen=True,
        forbid_unknown_fields=True,
    )  # fmt: skip


def find_schema(name: str) -> dict[str, Any] | None:
    """Return the schema of hooks.toml, or of a command's output; None if there is none of that name."""
    import msgspec

    if name == CONFIG:
        shapes: tuple[Any, ...] = (join_tables(),)
        title = "hooks.toml, of hooklatch"
    elif (known := list_outputs().get(name)) is not None:
        shapes = known
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

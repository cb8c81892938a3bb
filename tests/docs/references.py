"""Writes hooks-toml.md and events.md of docs/reference from the classes.  Run it: python tests/docs/references.py"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hooklatch.cli.schema import CONFIG, find_schema
from hooklatch.core.hooks.catalogue import Catalogue, EventSpec

DOCS = Path(__file__).parent.parent.parent / "docs/reference"
TOML = """# hooks.toml, key by key

For people who write `hooks.toml`: all tables and keys. [How hooks work](hooks.md) explains them.
`hooklatch schema hooks.toml` prints the same as a JSON Schema, which `hooklatch init` puts beside the file so that
editors complete it. An unknown key is refused, and
the error names the nearest one.

`python tests/docs/references.py` writes this page from the classes that read the file. Do not edit it by hand."""
EVENTS = """# Events, one by one

For authors of hooks: the payload and the permitted answers of each event. A hook may answer `warn` and `context` to
every event. [Writing hooks](../guides/hooks.md#verdicts) explains the answers and
[the models](hooks.md#the-four-models). [Hosts and their events](host-events.md) lists each host's events.
`hooklatch events NAME` prints the same.

`python tests/docs/references.py` writes this page from the catalogue. Do not edit it by hand."""
WHERE = {
    "source": "Any file of hooks.",
    "hook": "Any file of hooks.",
    "event": "`hooks.toml` and `hooks.d`.",
    "dialect": "`hooks.toml` and `hooks.d`. [Dialects](dialects.md) has its keys.",
}
MODELS = {
    "gate": "a gate: its hooks are called in order",
    "notify": "a notification: its hooks refuse nothing",
    "amend": "an amend: its hooks change the payload",
    "claim": "a claim: the first hook that takes it owns it",
}
MAX_DEFAULT = 60  # characters; a longer one is counted


def pages() -> dict[Path, str]:
    """Return both pages by their paths."""
    return {DOCS / "hooks-toml.md": of_toml(), DOCS / "events.md": of_events()}


def of_toml() -> str:
    schema = find_schema(CONFIG) or {}
    shapes = schema["$defs"]
    parts = [TOML]
    for name, one in shapes["ConfigFile"]["properties"].items():
        inner = one.get("items", one.get("additionalProperties", one))
        brackets = (
            f"[[{name}]]" if "items" in one else f"[{name}.NAME]" if "additionalProperties" in one else f"[{name}]"
        )
        shape = shapes.get(inner.get("$ref", "").rpartition("/")[2], {})
        parts += [f"## `{brackets}`", "In: " + WHERE.get(name, "`hooks.toml` alone.")]
        parts += table_of(shape, shapes)
        for key, below in shape.get("properties", {}).items():
            if below.get("$ref", "").endswith("Table"):  # a product's own, inside
                parts += [f"## `[{name}.{key}]`", "In: " + WHERE.get(name, "`hooks.toml` alone.")]
                parts += table_of(shapes[below["$ref"].rpartition("/")[2]], shapes)
    return "\n\n".join(parts) + "\n"


def table_of(shape: dict[str, Any], shapes: dict[str, Any]) -> list[str]:
    rows = list(rows_of(shape, shapes))
    return ["\n".join(["| key | values | default | what it is for |", "|---|---|---|---|", *rows])] if rows else []


def rows_of(shape: dict[str, Any], shapes: dict[str, Any]) -> Iterator[str]:
    for key, one in shape.get("properties", {}).items():
        is_needed = key in shape.get("required", [])
        default = "**needed**" if is_needed else default_of(one.get("default"))
        yield f"| `{key}` | {kind_of(one, shapes)} | {default} | {about(one)} |"


def default_of(value: object) -> str:
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > MAX_DEFAULT and isinstance(value, list | tuple):
        return f"{len(value)} entries"
    return f"`{text}`" if text not in ("{}", "[]", '""') else ""


def about(one: dict[str, Any]) -> str:
    """Return what a key is for; one that nobody described fails here."""
    return next(found["description"] for found in (one, *one.get("anyOf", [])) if "description" in found)


def kind_of(one: dict[str, Any], shapes: dict[str, Any]) -> str:
    """Return in words which values a key may have."""
    if "anyOf" in one:
        return " or ".join(kind for kind in (kind_of(each, shapes) for each in one["anyOf"]) if kind)
    if "enum" in one:
        return ", ".join(f"`{json.dumps(each)}`" for each in one["enum"] if each is not None)
    if "$ref" in one:
        name = one["$ref"].rpartition("/")[2]
        keys = ", ".join(f"`{key}`" for key in shapes[name].get("properties", {}))
        return f"a table: {keys}" if keys else "a table"
    match one.get("type"):
        case "array":
            return f"a list of: {kind_of(one.get('items', {}), shapes) or 'anything'}"
        case "object":
            keys = ", ".join(f"`{key}`" for key in one.get("properties", {}))
            return f"a table: {keys}" if keys else "a table"
        case "string":
            return "text"
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number" as kind:
            return ("a whole number" if kind == "integer" else "a number") + bounds(one)
        case _:
            return ""


def bounds(one: dict[str, Any]) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "over", "maximum": "at most", "exclusiveMaximum": "under"}
    found = [f"{word} {one[key]:g}" for key, word in words.items() if key in one]
    return f", {', '.join(found)}" if found else ""


def of_events() -> str:
    parts = [EVENTS]
    for spec in Catalogue.standard().values():
        parts += [f"## {spec.name}", spec.when, facts(spec)]
        if spec.fields:
            rows = [f"| `{field.name}` | `{field.type.replace('|', chr(92) + '|')}` |" for field in spec.fields]
            parts.append("\n".join(["| field | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def facts(spec: EventSpec) -> str:
    may = [f"`{word}`" for word in sorted(spec.verdicts | spec.outputs)]
    may += [f"`amend` of {', '.join(f'`{key}`' for key in sorted(spec.patch))}"] if spec.patch else []
    failing = "A hook that fails denies." if spec.fails_closed else "A hook that fails is skipped."
    match = f"`match` is compared with `{spec.match}`." if spec.match else "It has no field for `match`."
    answers = f"Answers: {', '.join(may)}." if may else "It has no answers."
    return f"It is {MODELS[spec.model]}. {answers} {failing} {match} Deadline: {spec.timeout:g} s."


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text)

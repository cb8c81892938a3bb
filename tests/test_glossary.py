"""docs/explanation/glossary.md: commands, keys of answers and settings use its words, and it has no word twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hooklatch.cli.commands import COMMANDS
from hooklatch.cli.schema import find_schema, list_schema_names
from language.glossary import avoided_words, glossary_terms, kept_names
from support.tables import table


def keys_of(schema: Any) -> Iterator[str]:
    """Yield each key that a schema describes, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from keys_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keys_of(value)


def test_no_term_is_avoided_and_the_glossary_is_small() -> None:
    terms = glossary_terms()

    assert not avoided_words().keys() & terms.keys()
    assert 50 <= len(terms) <= 75


@table("name", list_schema_names())
def test_keys_of_answers_and_settings_use_the_words_of_the_glossary(name: str) -> None:
    avoided = avoided_words()

    keys = set(keys_of(find_schema(name))) - kept_names()
    assert [key for key in sorted(keys) if key.split("_")[-1] in avoided] == []


def test_commands_use_the_words_of_the_glossary() -> None:
    names = [name for commands in COMMANDS.values() for name, *_ in commands]

    assert {word for name in names for word in name.split("-")} & avoided_words().keys() - kept_names() == set()


def test_each_name_that_stays_is_still_there() -> None:
    keys = {key for name in list_schema_names() for key in keys_of(find_schema(name))}

    assert {name for name in kept_names() if name.islower()} <= keys

"""Editing JSON with comments: what is added can be read, everything else stays byte for byte, and can be taken out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.cli.hosts.editing import (
    JsoncError,
    JsonNode,
    append_to_list,
    find_beyond_json,
    find_node,
    parse_jsonc,
    remove_child,
)

SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\r\n\t", " /* a, } */ ", " // b ]\n", "\n// c\r\n", "/**/"])
WORDS = st.sampled_from(["a", "b", 'with "quotes"', "ü", "", "x//y", "/*z*/"])
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), WORDS)
ENTRY = {"hooks": [{"type": "command", "command": "guard -x 'a b'", "timeout": 600}]}


def value_of(node: JsonNode | None) -> Any:
    return None if node is None else node.value


@st.composite
def jsonc(draw: st.DrawFn, value: Any) -> str:
    """Write a value with random space and comments around everything."""

    def gap() -> str:
        return draw(SPACES)

    def children(texts: list[str]) -> str:
        trailing = "," + gap() if texts and draw(st.booleans()) else ""
        return ",".join(gap() + text + gap() for text in texts) + trailing

    def write(one: Any) -> str:
        if isinstance(one, dict):
            return (
                "{"
                + gap()
                + children([f"{json.dumps(key)}{gap()}:{gap()}{write(inner)}" for key, inner in one.items()])
                + gap()
                + "}"
            )
        if isinstance(one, list):
            return "[" + gap() + children([write(inner) for inner in one]) + gap() + "]"
        return json.dumps(one, ensure_ascii=draw(st.booleans()))

    return gap() + write(value) + gap()


VALUES = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)), max_leaves=8
)
HOOKS = st.dictionaries(st.sampled_from(["PreToolUse", "Stop"]), st.lists(VALUES, max_size=3), max_size=2)
SETTINGS = st.builds(
    lambda rest, hooks: {**rest, **hooks},
    st.dictionaries(WORDS, VALUES, max_size=3),
    st.one_of(st.just({}), st.fixed_dictionaries({"hooks": HOOKS})),
)
TEXTS = SETTINGS.flatmap(lambda value: st.tuples(st.just(value), jsonc(value)))


def is_kept(before: str, after: str) -> bool:
    """Say whether every character of one text stands in the other, in the same order."""
    letters = iter(after)
    return all(letter in letters for letter in before)


@given(TEXTS)
def test_what_is_read_is_what_was_written(both: tuple[Any, str]) -> None:
    value, text = both

    assert value_of(parse_jsonc(text)) == value


@given(TEXTS)
def test_an_added_entry_is_the_last_of_its_list_and_all_else_stays(both: tuple[Any, str]) -> None:
    value, text = both

    after = append_to_list(text, ("hooks", "PreToolUse"), ENTRY)

    hooks = value.get("hooks", {})
    assert value_of(parse_jsonc(after)) == {
        **value, "hooks": {**hooks, "PreToolUse": [*hooks.get("PreToolUse", []), ENTRY]},
    }  # fmt: skip
    assert is_kept(text, after)


@given(TEXTS)
def test_a_removed_entry_takes_nothing_along(both: tuple[Any, str]) -> None:
    value, text = both
    count = len(value.get("hooks", {}).get("PreToolUse", []))

    after = remove_child(append_to_list(text, ("hooks", "PreToolUse"), ENTRY), ("hooks", "PreToolUse", count))

    assert value_of(parse_jsonc(after)) == {
        **value, "hooks": {**value.get("hooks", {}), "PreToolUse": value.get("hooks", {}).get("PreToolUse", [])},
    }  # fmt: skip
    assert comments(after) == comments(text)


def comments(text: str) -> list[str]:
    return [word for word in ("/* a, } */", "// b ]", "// c", "/**/") for _ in range(text.count(word))]


@given(TEXTS, st.data())
def test_any_child_can_be_removed(both: tuple[Any, str], data: st.DataObject) -> None:
    value, text = both
    if not value:
        return
    key = data.draw(st.sampled_from(sorted(value)))

    after = remove_child(text, (key,))

    assert value_of(parse_jsonc(after)) == {name: one for name, one in value.items() if name != key}


LINED = '{\n    "model": "x", // mine\n    "hooks": {\n        "Stop": []\n    } /* end */\n}\n'


@pytest.mark.parametrize(
    "text",
    [
        LINED,
        LINED.replace("\n", "\r\n"),
        LINED.replace("    ", "\t"),
        '{\n  "a": 1, // x\n}\n',
        '{"a": [1], "b": {}}',
        "{}",
        '{\n  "a": {\n    "b": 1\n  }\n}',
        '\ufeff{\n  "a": 1\n}\n',
    ],
)
def test_what_was_added_to_a_usual_file_comes_out_without_a_trace(text: str) -> None:
    bare = text.removeprefix("\ufeff")

    assert (
        remove_child(
            append_to_list(bare, ("hooks", "PreToolUse"), ENTRY),
            ("hooks", "PreToolUse") if "hooks" in text else ("hooks",),
        )
        == bare
    )


def test_the_style_of_the_file_is_kept() -> None:
    after = append_to_list(LINED.replace("    ", "\t").replace("\n", "\r\n"), ("hooks", "PreToolUse"), [1])

    assert after == (
        '{\r\n\t"model": "x", // mine\r\n\t"hooks": {\r\n\t\t"Stop": [],\r\n\t\t"PreToolUse": [\r\n\t\t\t[\r\n'
        "\t\t\t\t1\r\n\t\t\t]\r\n\t\t]\r\n\t} /* end */\r\n}\r\n"
    )


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ('{\n  "a" 1}', 2, 7, "expected ':', found '1'"),
        ('{"a": 1 "b": 2}', 1, 9, "expected ',' or '}'"),
        ('{"a": 1, "a": 2}', 1, 10, "the key 'a' occurs twice"),
        ("{", 1, 2, "found the end of the file"),
        ('{"a": tru}', 1, 7, "expected a value"),
        ("{} x", 1, 4, "expected the end of the file"),
        ("/* x", 1, 1, "a comment is not closed"),
        ('{"a": "x\n"}', 1, 7, "not closed"),
        ("[" * 1000, 1, 202, "nested too deeply"),
        ("{a: 1}", 1, 2, "expected a key in quotation marks"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(JsoncError) as caught:
        parse_jsonc(text)

    assert (caught.value.line, caught.value.column) == (line, column)
    assert what in str(caught.value)


@pytest.mark.parametrize("text", ["[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "1"])
def test_a_file_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(JsoncError, match="expected"):
        append_to_list(text, ("hooks", "PreToolUse"), ENTRY)


@pytest.mark.parametrize("text", ["", "\n", "// only a comment", "/* one */\r\n"])
def test_a_file_without_anything_gets_all_of_it(text: str) -> None:
    after = append_to_list(text, ("hooks", "PreToolUse"), ENTRY)

    assert after.startswith(text)
    assert value_of(find_node(parse_jsonc(after), ("hooks", "PreToolUse"))) == [ENTRY]


@pytest.mark.parametrize(
    ("text", "plain", "with_comments"),
    [
        ('{"a": "// no /* comment", "b": [1, 2]}', None, None),
        ('{"a": 1} // x', "line 1, column 10: a comment", None),
        ('{\n /* x */ "a": ",]"}', "line 2, column 2: a comment", None),
        ('{"a": [1,\n],}', "line 1, column 9: a comma before a closing bracket", "line 1, column 9: a comma"),
        ('{"a": 1, // x\n}', "line 1, column 8: a comma", "line 1, column 8: a comma"),
        ("", None, None),
    ],
)
def test_what_a_reader_of_plain_json_does_not_take_is_found(
    text: str, plain: str | None, with_comments: str | None
) -> None:
    for has_comments, wanted in ((False, plain), (True, with_comments)):
        found = find_beyond_json(text, has_comments=has_comments)
        assert found is None if wanted is None else str(found).startswith(wanted)


@given(TEXTS)
def test_what_is_plain_json_is_told_from_what_is_not(both: tuple[Any, str]) -> None:
    _, text = both

    try:
        json.loads(text)
        is_plain = True
    except ValueError:
        is_plain = False

    assert (find_beyond_json(text, has_comments=False) is None) == is_plain

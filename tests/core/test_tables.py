"""What is said of a table that does not fit its struct."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from hooklatch.core.tables import InvalidTableError, read_table


class Part(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, le=9, extra={"note": "inches"})]
    colour: Literal["red", "green"] = "red"

    def __post_init__(self) -> None:
        if self.size == 7:
            raise InvalidTableError("seven is odd", ("size",))


class Box(msgspec.Struct, forbid_unknown_fields=True):
    part: list[Part] = []
    spare: dict[str, str | Part] = {}
    words: list[str] | None = None
    flag: bool = False
    limit: Annotated[float, Meta(gt=0, examples=[2])] = 1.0
    one: Part | None = None


@pytest.mark.parametrize(
    ("table", "text", "path"),
    [
        ([], "the file is a table, not []", ()),
        ({"flags": True}, "the file has no key 'flags'; did you mean 'flag'?", ("flags",)),
        ({"flag": 1}, "flag is true or false, not 1", ("flag",)),
        ({"words": ["a", 1]}, "words is a list of strings, not ['a', 1]", ("words",)),
        ({"limit": 0}, "limit is a number over 0, not 0", ("limit",)),
        ({"part": [{"size": 1}, {}]}, "this part has no size; write a whole number from 1 to 9 (inches)", ("part", 1)),
        ({"part": [{"size": 0}]}, "size is a whole number from 1 to 9 (inches), not 0", ("part", 0, "size")),
        ({"part": [{"size": 7}]}, "seven is odd", ("part", 0, "size")),
        ({"part": [{"id": "x", "size": 1}]}, "part 'x': a part has no key 'id'; it takes size", ("part", 0, "id")),
        ({"part": [3]}, "a part is a table, not 3", ("part", 0)),
        (
            {"one": {"size": 1, "colour": "gren"}},
            "colour is one of 'red', 'green', not 'gren'; did you mean 'green'?",
            ("one", "colour"),
        ),
        ({"one": {"sizes": 1}}, "[one] has no key 'sizes'; did you mean 'size'?", ("one", "sizes")),
        ({"spare": {"a": "b", "c": {"size": 10}}}, "size is a whole number from 1 to 9", ("spare", "c", "size")),
        ({"spare": {"a": "b", "c": 1}}, "c is a string or a table, not 1", ("spare", "c")),
    ],
)
def test_a_mistake_is_named_with_its_key_and_what_is_allowed(
    table: Any, text: str, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(InvalidTableError) as caught:
        read_table(table, Box, "file")

    assert str(caught.value).startswith(text)
    assert caught.value.path == path

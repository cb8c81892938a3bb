"""A tool's result in its own shape with another text in it, for a program that takes no other shape.

Each text becomes the given one, each number 0, each list its first item: nothing of what the tool gave is left but its
keys, and the words by which such shapes are told apart.  The forwarder does this too where no daemon answers, so this
module imports little; `entry.c` does the same.
"""

from typing import Final, cast

__all__ = ["has_shape", "say_in_shape"]

TELLING: Final = ("mode", "status", "type")  # keys whose words tell one shape from another
LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz_")
MAX_WORD: Final = 32
MAX_DEPTH: Final = 100


def say_in_shape(response: object, text: str) -> object:
    """Return a result of the same shape that says this text.

    Raises:
        ValueError: it is nested too deep.
    """
    if isinstance(response, str):
        return text
    if isinstance(response, list):  # of content blocks
        return [{"type": "text", "text": text}]
    keys = list_keys(response)
    if "stdout" in keys:
        return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    if "file" in keys:  # a text, or an image, which a text replaces
        file = {"filePath": text, "content": text, "numLines": 1, "startLine": 1, "totalLines": 1}
        return {"type": "text", "file": file}
    return replace_texts(response, text, "", 0)


def list_keys(response: object) -> set[str]:
    return set(cast("dict[str, object]", response)) if isinstance(response, dict) else set[str]()


def replace_texts(value: object, text: str, key: str, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise ValueError("the result is nested too deep")
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: replace_texts(below, text, name, depth + 1) for name, below in members.items()}
    if isinstance(value, list):
        return [replace_texts(below, text, "", depth + 1) for below in cast("list[object]", value)[:1]]
    if isinstance(value, str):
        is_kept = key in TELLING and len(value) <= MAX_WORD and LETTERS.issuperset(value)
        return value if is_kept or not value else text
    return value if value is None or isinstance(value, bool) else 0


def has_shape(given: object, other: object) -> bool:
    """Return whether another result has the shape of the given one: its keys, and values of the same kinds."""
    if isinstance(given, dict):
        if not isinstance(other, dict):
            return False
        members, others = cast("dict[str, object]", given), cast("dict[str, object]", other)
        return members.keys() == others.keys() and all(has_shape(members[key], others[key]) for key in members)
    if isinstance(given, list):
        items = cast("list[object]", given)
        return isinstance(other, list) and all(
            any(has_shape(item, another) for item in items) for another in cast("list[object]", other)
        )
    if isinstance(given, int | float) and not isinstance(given, bool):
        return isinstance(other, int | float) and not isinstance(other, bool)
    return type(given) is type(other)

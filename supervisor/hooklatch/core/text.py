"""Phrases shared by messages: counts with their noun, the nearest known name, durations, and escaped text.

A duration is a number with its unit: `500ms`, `90s`, `15m`, `24h`, `7d`.  A text from outside may have characters that
people do not see or take for others, which are escaped, and parts that must not be written, which a mark replaces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

__all__ = [
    "REDACTED", "TOO_DEEP", "format_count", "suggest_name", "find_disguised_word", "escape_text", "is_unicode",
    "find_omission_mark", "read_duration", "format_duration",
]  # fmt: skip

REDACTED = "[redacted]"  # in place of a secret
TOO_DEEP = "[too deep]"  # in place of values that are nested too deep to be read
# Letters and marks to Unicode, and nothing to the eye: DerivedCoreProperties.txt, Default_Ignorable_Code_Point, and
# blank symbols.  Characters that Python does not call printable are not listed.
INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00013441\U00013442\U00016fe4\U0001d159"
).union(map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0)))
EMOJI = "\ufe0f"  # after a symbol: in colour
# Letters of other alphabets that look like one of ours in most fonts.
LOOKALIKES = frozenset(
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0455\u0456\u0458\u04bb\u0501\u051b\u051d\u04cf\u043a"  # small Cyrillic
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0423\u0405\u0406\u0408"
    "\u03b1\u03b9\u03ba\u03bd\u03bf\u03c1\u03c5\u03f2\u03f3"  # small Greek
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u0570\u0578\u057d\u0585\u0566\u0131\u0261\u0251"  # Armenian; Latin without a dot, and of phonetics
)
WORD, OURS = r"\w+", "[A-Za-z]"  # compiled by `re` when they are first used: most commands use none
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}  # `min` too: that is how minutes are shown
LONG = ((86400, "d"), (3600, "h"), (60, "min"))  # a unit is used from two of it on: "90 s", not "1.5 min"
DURATION = rf"(?a:(\d+(?:\.\d+)?|\.\d+) ?({'|'.join(UNITS)})?)"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 hook`, `2 hooks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def suggest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the nearest known name, or two very near ones, as the end of a message; "" if none is similar enough."""
    from difflib import get_close_matches  # imported here: few commands and requests have something to suggest

    names = list(known)  # two, since "stauts" is nearer to "stats" than to "status"
    near = get_close_matches(name, names, 2, max(cutoff, 0.82)) or get_close_matches(name, names, 1, cutoff)
    near = near or [each for each in names if each.endswith((f":{name}", f"/{name}")) or each.startswith(name)][:1]
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def is_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode, so that it can be written as UTF-8: a name of a file may not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_omission_mark(*texts: str) -> str | None:
    """Return the mark that replaces something in one of these texts; None if the texts are whole."""
    return next((mark for mark in (REDACTED, TOO_DEEP) for text in texts if mark in text), None)


def escape_text(text: str, *, kept: str = "") -> str:
    """Return a text with invisible characters replaced by their escapes, except for those in `kept`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character in kept or is_visible(character, before)
        else character.encode("unicode_escape").decode("ascii")
        for before, character in zip(f" {text}", text, strict=False)
    )


def is_visible(letter: str, before: str) -> bool:
    if letter not in INVISIBLE:
        return letter.isprintable()
    import unicodedata  # imported here, and below: few texts need it

    return letter == EMOJI and unicodedata.category(before) == "So"


def find_disguised_word(text: str) -> str | None:
    """Return the first word, in ASCII, with a letter that people take for an ASCII letter; None if there is none.

    That is a letter of another alphabet beside ASCII letters, or another form of an ASCII letter.
    """
    if text.isascii():
        return None
    for word in re.findall(WORD, text):
        others = [letter for letter in word if not letter.isascii()]
        if any(map(is_variant, others)) or (re.search(OURS, word) and not LOOKALIKES.isdisjoint(others)):
            return ascii(word)
    return None


def is_variant(letter: str) -> bool:
    """Return whether this is an ASCII letter in another form: full width, a mathematician's bold, or the like."""
    import unicodedata

    return unicodedata.category(letter) in ("Ll", "Lu") and unicodedata.normalize("NFKC", letter).isascii()


def read_duration(text: str) -> float:
    """Return the seconds of a duration over 0; a bare number is in seconds.

    Raises:
        ValueError: the text is not a duration; the error says how to write one.
    """
    match = re.fullmatch(DURATION, text)
    seconds = float(match[1]) * UNITS[match[2] or "s"] if match is not None else 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is not a duration over 0; write it like 90s, 15m, 2h or 7d")
    return seconds


def format_duration(seconds: float) -> str:
    """Format a duration for people, wherever they read one: `300 ms`, `2.5 s`, `90 s`, `15 min`, `24.5 h`, `99 d`."""
    if 0 < seconds < 1:
        return f"{math.ceil(seconds * 1000)} ms"
    length, unit = next(((length, unit) for length, unit in LONG if seconds >= 2 * length), (1, "s"))
    number = seconds / length
    return f"{number:.0f} {unit}" if length == 1 and number >= 10 else f"{number:.1f} {unit}".replace(".0 ", " ")

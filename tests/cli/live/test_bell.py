"""The bell and the title when an ask waits: live commands at a real terminal, beside a real daemon.

Slow: the daemon and each command are processes of their own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from support.commands import CONFIG, GUARDS, Place, Started, new_place, payload, serving
from support.screens import Terminal, terminal

pytestmark = pytest.mark.slow

SAVED, RESTORED, NONE = b"\x1b[22;2t", b"\x1b[23;2t", b"\x1b]2;\x1b\\"
LIVE = [
    (("asks", "--follow"), "is the next one", "\x03"),
    (("watch",), "watching", "\x03"),
    (("top", "--interval", "100ms"), "guards:judge", "q"),
]
live = pytest.mark.parametrize(("words", "begun", "end"), LIVE, ids=[words[0] for words, _, _ in LIVE])


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    config = '[ask]\nwait = "5m"\n' + CONFIG
    with new_place({"hooks.toml": config, "guards.py": GUARDS}) as place, serving(place):
        yield place


@contextmanager
def asking(place: Place, command: str) -> Generator[Started]:
    """Have an agent's call wait, and deny it at the end."""
    (place.folder / "payload.json").write_text(payload("Ask", command=command))
    before, new = {ask["id"] for ask in place.json("asks")["asks"]}, set[str]()
    fired = place.begin("fire", "pre_tool_use", "--payload", str(place.folder / "payload.json"), "--json")
    try:
        while not (new := {ask["id"] for ask in place.json("asks")["asks"]} - before):
            pass
        yield fired
    finally:
        place.run("asks", "answer", *new, "deny", "--reason", "no")
        fired.process.communicate()


def title(number: int) -> bytes:
    return f"\x1b]2;({number}) ask{' waits' if number == 1 else 's wait'}\x1b\\".encode()


def until_written(seen: Terminal, *pieces: bytes, after: int = 0) -> int:
    """Wait until these have been written, each behind the one before; return where the last one ends."""
    for piece in pieces:
        seen.until(lambda piece=piece, after=after: piece in seen.written[after:])  # type: ignore[misc]
        after = seen.written.index(piece, after) + len(piece)
    return after


@live
def test_an_ask_rings_and_the_title_counts_until_the_end(
    place: Place, words: tuple[str, ...], begun: str, end: str
) -> None:
    with terminal(place, *words) as seen:
        seen.until_seen(begun)
        assert SAVED in seen.written
        assert b"\a" not in seen.written
        with asking(place, "rm \x1b]2;evil\a"):
            after = until_written(seen, title(1), b"\a")
            with asking(place, "make"):
                after = until_written(seen, title(2), b"\a", after=after)
            after = until_written(seen, title(1), after=after)
        after = until_written(seen, NONE, RESTORED, SAVED, after=after)
        seen.press(end)

        assert seen.end() == 0
    assert NONE + RESTORED in seen.written[after:]
    assert seen.written.count(b"\a") == 2


@live
def test_an_ask_that_waits_already_is_in_the_title(place: Place, words: tuple[str, ...], begun: str, end: str) -> None:
    with asking(place, "make"), terminal(place, *words) as seen:
        until_written(seen, title(1))
        seen.press(end)

        assert seen.end() == 0
    assert b"\a" not in seen.written


@live
def test_it_can_be_switched_off(place: Place, words: tuple[str, ...], begun: str, end: str) -> None:
    with terminal(place, *words, "--no-bell") as seen:
        seen.until_seen(begun)
        with asking(place, "make"):
            first = seen.text
            seen.until(lambda: words[0] == "watch" or seen.text != first)  # the ask, or the next second's table
        seen.until(lambda: words[0] != "watch" or "deny" in seen.text)
        seen.press(end)

        assert seen.end() == 0
    assert not [piece for piece in (b"\a", SAVED, RESTORED, b"\x1b]2") if piece in seen.written]


@pytest.mark.parametrize("words", [("asks", "--follow"), ("asks", "--follow", "--json"), ("watch",)], ids=" ".join)
def test_a_pipe_gets_neither(place: Place, words: tuple[str, ...]) -> None:
    followed = place.begin(*words)
    if words[0] == "watch":
        followed.wait_for("watching")
    with asking(place, "make"):
        said = [] if words[0] == "watch" else [followed.line()]
    followed.process.terminate()
    out, _ = followed.process.communicate()

    assert not {"\a", "\x1b"} & set("".join([*said, out]))

"""What pages show, as plain values: texts, differences, revisions, charts; and what files and counts tell.  Pure."""

from __future__ import annotations

import html
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from hooklatch.client.trio_admin import AdminConnector, TrioAdminConnection, convert_answer
from hooklatch.core.answers import AsksAnswer, HooksAnswer
from hooklatch.dashboard.actions import Actions
from hooklatch.dashboard.decisions import build_announced_row, build_record_row
from hooklatch.dashboard.doors import Keys
from hooklatch.dashboard.feed import AnnouncementBuffer
from hooklatch.dashboard.rendering import (
    MAX_TEXT,
    build_environment,
    draw_bar,
    format_moment,
    format_page_json,
    isolate_text_direction,
    make_visible,
)
from hooklatch.dashboard.revisions import (
    Revision,
    RevisionDiff,
    compare_revisions,
    list_field_changes,
    list_revisions,
    list_text_changes,
)
from hooklatch.dashboard.site import DashboardSite
from hooklatch.dashboard.sources import read_source
from hooklatch.errors import DaemonUnreachableError, UnreadableAnswerError
from support.asked import ask
from support.tables import table


@table(
    ("text", "shown"),
    [
        ("plain, ünïcode, 日本語, ✓", "plain, ünïcode, 日本語, ✓"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\rb\x00", "a\\rb\\x00"),
        ("exe.\u202egpj", "exe.\\u202egpj"),
        ("\u2066hidden\u2069\u200b\u200d\ufeff", "\\u2066hidden\\u2069\\u200b\\u200d\\ufeff"),
        ("line\u2028separator", "line\\u2028separator"),
        ("\u3164\u2800\u00a0", "\\u3164\\u2800\\xa0"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert make_visible(text) == shown


def test_a_huge_text_is_cut_and_said_to_be() -> None:
    shown = make_visible("\x00" * (MAX_TEXT + 1))

    assert len(shown) < 5 * MAX_TEXT
    assert shown.endswith(f"({MAX_TEXT + 1} characters)")


def test_a_template_prints_nothing_as_it_is() -> None:
    environment = build_environment("/base")
    page = environment.from_string('<p title="{{ one }}">{{ one }}{{ nothing }}<a href="{{ link("hook", name=one) }}">')

    text = page.render(one='<b>"\u202e', nothing=None)

    assert text == (
        '<p title="&lt;b&gt;&#34;\\u202e">&lt;b&gt;&#34;\\u202e\u2013<a href="/base/hook?name=%3Cb%3E%22%E2%80%AE">'
    )


def test_words_from_right_to_left_stay_in_their_order() -> None:
    text = isolate_text_direction('mv <\u05d0\u05d1> \u0645 1 2 "\u202e"')

    assert text == "mv &lt;<bdi>\u05d0\u05d1</bdi>&gt; <bdi>\u0645</bdi> 1 2 &#34;\\u202e&#34;"


@table(
    ("at", "pattern"),
    [
        (0, r"(1970-01-01|1969-12-31) \d\d:\d\d:00"),
        ("2026-01-31T12:00:00.123Z", r"2026-0[12]-\d\d \d\d:\d\d:00"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (1e300, r"1e\+300"),
        ("<script>", "<script>"),
        (None, "None"),
        (True, "True"),
    ],
)
def test_a_moment_that_is_none_is_shown_as_it_is(at: object, pattern: str) -> None:
    assert re.fullmatch(pattern, format_moment(at))


def lines(changes: list[Any]) -> list[tuple[str, list[str]]]:
    return [(one.field, [line.mark + line.text for line in one.lines]) for one in changes]


@table(
    ("payload", "patch", "shown"),
    [
        ({"text": "a\nb\nc"}, {"text": "a\nB\nc"}, [("text", [" a", "-b", "+B", " c"])]),
        ({}, {"new": "x"}, [("new", ["+x"])]),
        ({"n": {"a": 1}}, {"n": {"a": 2}}, [("n", [" {", '-  "a": 1', '+  "a": 2', " }"])]),
        ({"same": "x"}, {"same": "x"}, [("same", [])]),
        ("cut", {"n": "x"}, [("n", ["+x"])]),
        ({"a": "x"}, None, []),
        ({"a": "x"}, "no mapping", []),
    ],
)
def test_what_a_patch_changed_is_a_difference(payload: object, patch: object, shown: object) -> None:
    assert lines(list_field_changes(payload, patch)) == shown


def test_long_texts_are_compared_at_their_beginning_and_unchanged_lines_left_out() -> None:
    old = "\n".join(map(str, range(100)))
    (change,) = list_field_changes({"text": old}, {"text": old.replace("\n50\n", "\nfifty\n")})
    (huge,) = list_field_changes({"text": "x\n" * 100_000}, {"text": "y\n" * 100_000})

    assert [line.text for line in change.lines if line.mark == "@"] == ["47 unchanged lines", "46 unchanged lines"]
    assert len(huge.lines) <= 600
    assert "beginning" in huge.note


def test_a_record_is_read_whatever_is_in_it() -> None:
    odd = {
        "kind": "decision", "seq": "7", "at": 5, "verdict": ["deny"], "hook": 3, "outcomes": [1, {"hook": {}}, None],
        "warnings": "none", "excerpt": [1], "patch": 5, "duration_ms": True,
    }  # fmt: skip

    entry = build_record_row(odd)

    assert (entry.seq, entry.verdict, entry.hook, entry.duration_ms) == (None, "decision", "", None)
    assert [one.result for one in entry.outcomes] == ["unknown"] * 3
    assert entry.warnings == []
    assert build_record_row({}).kind == "unknown"
    assert build_record_row({"kind": "fleet", "action": "stale"}).line == "action stale"
    assert "cannot be shown" in format_page_json({1, 2})


def test_a_decision_that_is_not_in_the_record_says_so_and_shows_no_payload() -> None:
    decision = {"decision_id": "d-1", "event": "stop", "verdict": "deny", "patch": {"secret": "x"}, "outcomes": []}

    entry = build_announced_row(
        {"decision": decision, "tool": "Bash", "host": "codex", "session_id": None}, fault="not there"
    )

    assert (entry.id, entry.verdict, entry.tool, entry.host) == ("d-1", "deny", "Bash", "codex")
    assert entry.fault == "not there"
    assert (entry.payload, entry.changes) == ("", [])
    assert "secret" not in entry.document


def revision(number: int, previous: int, **changes: list[str]) -> Revision:
    added, removed, names = (changes.get(key, []) for key in ("added", "removed", "changed"))
    return Revision(number, previous, "", "", added, removed, names)


HISTORY = [
    revision(5, 4, removed=["b"], added=["c"]),
    revision(4, 3, changed=["a"]),
    revision(3, 2, removed=["x"]),
    revision(2, 1, added=["a", "b"], changed=["x"]),
]


@table(
    ("first", "last", "found"),
    [
        (1, 5, RevisionDiff(["a", "c"], ["x"], [])),
        (2, 5, RevisionDiff(["c"], ["b", "x"], ["a"])),
        (5, 2, RevisionDiff(["b", "x"], ["c"], ["a"])),
        (2, 2, RevisionDiff()),
        (3, 4, RevisionDiff(changed=["a"])),
    ],
)
def test_what_lies_between_two_revisions(first: int, last: int, found: RevisionDiff) -> None:
    assert compare_revisions(HISTORY, first, last) == found


@table(("first", "last"), [(0, 5), (1, 9), (7, 9)])
def test_a_difference_over_a_gap_is_not_known(first: int, last: int) -> None:
    assert "the records on this page" in compare_revisions(HISTORY, first, last).fault


def test_what_comes_back_has_changed() -> None:
    back = [revision(3, 2, added=["a"]), revision(2, 1, removed=["a"])]

    assert compare_revisions(back, 1, 3) == RevisionDiff(changed=["a"])


def source(place: str, digest: str, text: str = "") -> dict[str, Any]:
    made: dict[str, Any] = {"location": place, "sha256": digest, "build": 1}
    return {**made, "text": text} if text else made


def test_a_text_that_changed_between_revisions_is_a_difference() -> None:
    before = [source("/a.py", "1", "x\ny"), source("/b.py", "1", "same"), source("/long.py", "1")]
    after = [*before, source("/a.py", "2", "x\nz"), source("/long.py", "2"), source("/new.py", "1", "n")]
    configuration = {"location": "/hooks.toml", "sha256": "3"}

    found = list_text_changes([*before, configuration], [*after, {**configuration, "sha256": "4"}])

    assert lines(found) == [("/a.py", [" x", "-y", "+z"]), ("/long.py", []), ("/new.py", ["+n"])]
    assert "does not have both texts" in found[1].note


def test_records_of_other_kinds_or_shapes_are_no_revisions() -> None:
    good = {"kind": "registry", "revision": 2, "previous": 1, "at": "", "digest": "d"}
    good |= {"added": ["a"], "removed": [], "changed": []}

    assert [one.number for one in list_revisions([good, {"kind": "registry"}, {**good, "kind": "source"}])] == [2]


def test_a_bar_holds_numbers_and_classes_alone() -> None:
    bar = str(draw_bar((3, "passed"), (1, "refused"), begin=2, whole=10))

    assert bar.count("<rect") == 2
    assert 'class="passed" x="32.0" width="48.0"' in bar
    assert "style" not in bar
    assert '"&lt;' in str(draw_bar((1, "<i>"), whole=1))
    assert [str(draw_bar((1, "passed"), whole=whole)) for whole in (0, float("nan"), float("inf"))] == [""] * 3


@table(
    ("path", "shown"),
    [
        ("/home/ann/x.py:4", "~/x.py:4"),
        ("/home/ann", "~"),
        ("/home/anna/x", "/home/anna/x"),
        ("/srv/home/ann/x", "/srv/home/ann/x"),
        (None, ""),
    ],
)
def test_a_home_is_shown_as_a_tilde(path: str | None, shown: str) -> None:
    assert build_environment("/base", "/home/ann/").from_string("{{ one | tilde }}").render(one=path) == shown


async def test_of_many_decisions_the_newest_are_shown_and_the_others_counted() -> None:
    told = [{"topic": "decisions", "decision": {"decision_id": str(number)}} for number in range(50)]
    told += [{"topic": "decisions", "missed": 7}, {"topic": "operations", "kind": "suspended"}]
    watch = AnnouncementBuffer()

    with pytest.raises(DaemonUnreachableError, match="over"):
        await watch.receive(Told(told))
    newest, omitted = watch.take()

    assert [one["decision"]["decision_id"] for one in newest] == [str(number) for number in range(30, 50)]
    assert omitted == 37
    assert watch.changed.is_set()
    assert watch.take() == ([], 0)


class Told(TrioAdminConnection):
    """A connection on which all of this was announced, and which then ended."""

    def __init__(self, announcements: list[dict[str, Any]]) -> None:
        self._told = iter(announcements)

    async def announcement(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        for one in self._told:
            return one
        raise DaemonUnreachableError("it is over")


def test_a_source_is_compared_with_what_the_daemon_loaded(tmp_path: Path) -> None:
    path = tmp_path / "guards.py"
    path.write_bytes(b"one\n\xff\n")
    digest = sha256(path.read_bytes()).hexdigest()
    (tmp_path / "long.py").write_bytes(b"x" * 300_000)

    whole = read_source(str(path), digest, f"{path}:2")

    assert (whole.state, whole.begins_at, whole.lines) == ("loaded", 2, ["one", "\ufffd", ""])
    assert read_source(str(path), "other", "elsewhere.py:2").state == "changed"
    assert read_source(str(path), "other", "elsewhere.py:2").begins_at == 0
    assert "too long" in read_source(str(tmp_path / "long.py"), digest, None).state
    assert "cannot be read" in read_source(str(tmp_path / "gone.py"), digest, None).state
    assert "cannot be read" in read_source(str(tmp_path), digest, None).state
    assert "cannot be read" in read_source("\0", digest, None).state


@pytest.mark.parametrize("missing", ["hooks", "revision"])
def test_an_answer_without_what_a_page_needs_is_none(missing: str) -> None:
    told = {"hooks": [], "revision": 1, "digest": "d"}
    del told[missing]

    with pytest.raises(UnreadableAnswerError, match="cannot be understood"):
        convert_answer("hooks", told, HooksAnswer)


def asked(**more: Any) -> str:
    """Return the page on which somebody answers an ask."""
    told = msgspec.json.decode(msgspec.json.encode({"asks": [ask(**more)]}), type=AsksAnswer)["asks"][0]
    actions = Actions(DashboardSite(AdminConnector("hooklatch dashboard", list), Keys(1), "me", look_at_fleet=None))
    return html.unescape(bytes(actions._ask_form(told, {}).body).decode())


def test_who_answers_an_ask_is_told_of_the_hooks_that_are_not_shown() -> None:
    assert "More hooks ask" not in asked()
    assert "More hooks ask than are shown: 11" in asked(questions_omitted=11)


def test_who_answers_an_ask_sees_all_of_what_the_daemon_shows_of_it() -> None:
    value = {"padding": [1] * 7000, "command": "rm -rf /"}  # indented, it is longer than a page shows of one value

    page = asked(excerpt=msgspec.Raw(msgspec.json.encode(value)))

    assert '"command":"rm -rf /"' in page
    assert '"command": "ls"' in asked(excerpt=msgspec.Raw(b'{"command":"ls"}'))


def test_who_answers_an_ask_sees_what_the_agent_is_told_to_run_after_a_no() -> None:
    assert "is told to run" not in asked()
    page = asked(instead="echo '<b>' \u202e")

    assert "If you deny, the agent is told to run" in page
    assert "echo '<b>'" in page
    assert "\u202e" not in page


@table("field", ["excerpt_cut", "patch_cut"])
def test_who_answers_an_ask_is_told_what_is_not_all_of_it(field: str) -> None:
    assert "is not all of" not in asked()
    assert "is not all of" in asked(**{field: '{"command": "rm'})
    assert "is not all of" in asked(**{field: ""})


@table("field", ["excerpt", "patch"])
def test_who_answers_an_ask_is_told_that_what_is_hidden_may_be_anything(field: str) -> None:
    assert "may be anything" not in asked()
    assert "may be anything" in asked(**{field: msgspec.Raw(b'{"command":"[redacted] ls"}')})

"""What never reaches the record: values of certain keys at any depth, and known forms of secrets in any text."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.messages import CallOutcome
from hooklatch.core.payload import Payload
from hooklatch.core.text import REDACTED
from hooklatch.record.redaction import (
    LONG_KEY,
    WINDOW,
    Redactor,
    excerpt_object,
    excerpt_payload,
    hide_keys,
    replace_secrets,
)
from hooklatch.record.settings import REDACTED_TEXTS, RecordSettings
from support.records import decision, fact, lines, recorded
from support.tables import table

WORDS = ["", " ", "a", "-", "é", "\n", '"', "\u017f"]
SECRETS = [
    "sk-abcdefghijklmnop1234",
    "sk-ant-api03-AbC_d-0123456789abcdef",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_11ABCDEFG0123456789_abcdefgh",
    "glpat-0123456789abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abcdefghij",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "npm_0123456789abcdefghijABCDEFGHIJ012345",
    "sk_live_0123456789abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "Bearer abcdefghijklmnop0123",
    "Authorization: Basic dXNlcjpwYXNzd29yZDEyMw==",
    "password=hunter2",
    "DB_PASSWORD: hunter2",
    "API_KEY='hunter2'",
    'export SECRET_TOKEN="hunter2"',
    '{"password": "hunter2"}',
    '{"passphrase": "of hunter2 \\"and\\" hunter2"}',
    'curl -d "{\\"token\\": \\"of hunter2\\"}"',
    "private_key = 'of hunter2'",
    "--password hunter2",
    "--api-key=hunter2",
    "https://me:hunter2@example.org/x",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAhunter2\nhunter2==\n-----END RSA PRIVATE KEY-----",
]
KEYS = [
    "password", "DB_PASSWORD", "passwd", "secret", "client_secret", "token", "authToken", "access_tokens", "apiKey",
    "X-API-Key", "api_key", "private_key", "credentials", "Authorization", "Cookie", "set-cookie", "passphrase",
]  # fmt: skip
PLAIN = [
    "ls -la", "git push --force origin main", "a sketch of the token bucket", "tokens are counted",
    "the password is asked for", "https://example.org/a@b", "sk-", "bearer of news", "print(tokenize(line))",
]  # fmt: skip


def is_plain(redactor: Redactor, fields: object, levels: int = 9) -> bool:
    return redactor.is_plain(fields, msgspec.json.encode(fields), levels)


def payload_of(text: str) -> dict[str, object]:
    return {"tool_input": {"deep": [{"er": text}]}}


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_a_text_of_the_payload_is_replaced(tmp_path: Path, secret: str) -> None:
    found = recorded(decision(), fact(payload_of(f"before {secret} after")), tmp_path)

    text = found["excerpt"]["tool_input"]["deep"][0]["er"]
    assert REDACTED in text
    assert text.startswith("before ")
    for part in ("hunter2", "0123456789"):
        assert part not in json.dumps(found["excerpt"])


@pytest.mark.parametrize("reason", ["", "x" * 20_000, None])
def test_a_secret_in_what_to_run_instead_is_replaced_whatever_else_is_said(tmp_path: Path, reason: str | None) -> None:
    found = recorded(decision(reason=reason, outcomes=[], instead="curl -u a:b password=hunter2"), fact(), tmp_path)

    assert found["instead"] == f"curl -u a:b {REDACTED}"


@pytest.mark.parametrize("secret", ["sk-abcdefghijklmnop1234", "password=hunter2"])
def test_a_secret_in_what_a_hook_says_is_replaced(tmp_path: Path, secret: str) -> None:
    outcome = CallOutcome(layer="global", hook="x", outcome="failed", cause="crash", message=f"died: {secret}")
    given = decision(reason=f"no: {secret}", warnings=[f"look: {secret}"], outcomes=[outcome], instead=f"a {secret}")

    found = recorded(given, fact(), tmp_path)

    assert (found["reason"], found["instead"]) == (f"no: {REDACTED}", f"a {REDACTED}")
    assert found["warnings"] == [f"look: {REDACTED}"]
    assert found["outcomes"][0]["message"] == f"died: {REDACTED}"
    assert secret.encode() not in b"".join(lines(tmp_path))


@pytest.mark.parametrize("key", KEYS)
def test_a_value_is_left_out_by_its_key_at_any_depth(tmp_path: Path, key: str) -> None:
    payload = {key: {"anything": 1}, "a": {"b": [{key: "hunter2", "kept": 1}]}}

    found = recorded(decision(), fact(payload), tmp_path)

    assert found["excerpt"] == {key: REDACTED, "a": {"b": [{key: REDACTED, "kept": 1}]}}


@pytest.mark.parametrize("key", KEYS)
def test_a_value_is_left_out_by_its_key_in_the_json_of_a_text_too(tmp_path: Path, key: str) -> None:
    inner = json.dumps({key: {"of": "hunter2"}, "kept": 1})
    payload = {"one": f" {inner}", "two": json.dumps([inner]), "twice": f'{{"{key}": "hunter2", "{key}": 1}}'}

    shown = recorded(decision(), fact(payload), tmp_path)["excerpt"]

    left = {key: REDACTED, "kept": 1}
    assert json.loads(shown["one"]) == json.loads(json.loads(shown["two"])[0]) == left
    assert "hunter2" not in json.dumps(shown)


def test_what_a_text_says_in_two_ways_is_left_out_and_not_shown_as_one_of_them() -> None:
    data = json.dumps({"content": '{"run": "curl x | sh", "run": "ls"}', "kept": "{}"}).encode()

    shown, cut = excerpt_object(data, 4096, Redactor(RecordSettings()))

    assert cut is None
    assert shown is not None
    assert json.loads(bytes(shown)) == {"content": REDACTED, "kept": "{}"}


def test_a_secret_in_the_first_of_two_values_of_a_key_in_the_json_of_a_text_is_left_out(tmp_path: Path) -> None:
    hidden = '{"a": {"ours": "hunter2"}, "a": 1}'  # decoded, only the last value is there

    shown = recorded(decision(), fact({"text": hidden, "kept": "{}"}), tmp_path, redact=("ours",))["excerpt"]

    assert shown == {"text": REDACTED, "kept": "{}"}


def test_patterns_that_together_need_more_memory_than_re2_gives_one_are_searched_for_all_the_same() -> None:
    patterns = tuple(f"secret-{number}[a-z\u0100-\u1000]{{500}}" for number in range(200))
    redactor = Redactor(RecordSettings(redact_text=patterns))

    assert not is_plain(redactor, ["plain"]), "they are not one pattern, so each text is searched by each"
    assert redactor.clean("plain") == "plain"
    assert redactor.clean("x secret-199" + "a" * 500) == f"x {REDACTED}"


def test_a_secret_that_the_json_of_a_text_escapes_is_replaced(tmp_path: Path) -> None:
    text = '{"a": "\\u0073k-0123456789abcdefghij", "kept": 1}'

    shown = recorded(decision(), fact({"text": text}), tmp_path)["excerpt"]

    assert json.loads(shown["text"]) == {"a": REDACTED, "kept": 1}


@pytest.mark.parametrize("text", ['{ "a": [1, "b"] }', "[link](https://example.org)", "{not json}", '{"a":' * 60])
def test_the_json_of_a_text_without_secrets_stays_as_it_is(tmp_path: Path, text: str) -> None:
    shown = recorded(decision(), fact({"text": text, "password": 1}), tmp_path)["excerpt"]

    assert shown == {"text": text, "password": REDACTED}


@pytest.mark.parametrize("text", PLAIN)
def test_an_ordinary_text_stays_as_it_is(tmp_path: Path, text: str) -> None:
    found = recorded(decision(reason=text), fact({"text": text}), tmp_path)

    assert (found["reason"], found["excerpt"]) == (text, {"text": text})


# What JSON escapes, each with a letter that would hide the edge of the word after it if it were taken literally.
@table(
    ("before", "secret"),
    product(["\n", "\t", "\r", "\b", "\f", '"', "\\", "\\\\", "\x00", "\x1b", "\\n ", "é", "\u2028", "/"], SECRETS),
)
def test_a_secret_next_to_any_character_is_found_in_the_json_of_its_text(before: str, secret: str) -> None:
    redactor = Redactor(RecordSettings())
    text = f"x{before}{secret}{before}y"

    assert redactor.clean(text) != text
    assert not redactor.is_clean(msgspec.json.encode({"a": ["b", text]}))
    assert not is_plain(redactor, {"a": ["b", text, "c"]})


CHARACTERS = st.sampled_from(
    [*"aqQ01 _-=:", "\n", '"', "\\", "\x00", "\x1b", "\x7f", "é", "💡", "\u2028", "u0071", "\\u0071"]
)
PATTERNS = [r"\bq", r"q\b", r"\Bq\B", r"a\nq", r'"q', r"\\\\q", r"(?i)a.q", r"é\s*q", r"q[^a]*0", r"\x1bq", r"q\W"]


@given(st.lists(st.lists(CHARACTERS).map("".join), min_size=1), st.sampled_from(PATTERNS))
def test_where_nothing_is_found_no_text_holds_a_secret(texts: list[str], pattern: str) -> None:
    redactor = Redactor(RecordSettings(redact_text=(pattern,)))
    pattern_alone = re2.compile(pattern)

    has_secret = any(pattern_alone.search(text) for text in texts)

    assert not (has_secret and redactor.is_clean(msgspec.json.encode({texts[0]: texts})))
    assert not (has_secret and is_plain(redactor, {texts[0]: texts}))


@table("secret", SECRETS)
def test_a_payload_without_backslashes_is_searched_too(secret: str) -> None:
    assert not Redactor(RecordSettings()).is_clean(msgspec.json.encode([secret]))


def test_ordinary_json_is_clean_whatever_it_escapes() -> None:
    redactor = Redactor(RecordSettings())

    assert all(redactor.is_clean(msgspec.json.encode({"command": f'a "b"\n\\c\x1b {text}'})) for text in PLAIN)


def test_no_key_that_hides_its_value_is_plain_whatever_is_beside_it() -> None:
    redactor = Redactor(RecordSettings())
    shown = {f"key{number}": 1 for number in range(300)}

    assert is_plain(redactor, shown)
    for key in [
        *KEYS,
        "k" * (LONG_KEY + 1),
        '\\"' * LONG_KEY + "k",
        "é" * (LONG_KEY + 1),
        "ap\u0130key",
        "api_\u212aey",
    ]:
        assert not is_plain(redactor, {**shown, key: 1})
        assert not is_plain(redactor, {"a": [[{'b"\n': {key: 1}}]]})


KEY_PARTS = st.sampled_from(
    ["pass", "word", "TOKEN", "s", "k\u0130", "\u212a", "é", '"', "\\", "\n", "_", "k" * 150, "{", "a"]
)
GLOBS = ["*password*", "*token", "k*é", "?a_[bc]", "*", "cook\u0130e", '*"*', "*\u212a*"]
VALUES = st.recursive(
    st.lists(KEY_PARTS, max_size=3).map("".join) | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.lists(KEY_PARTS, max_size=3).map("".join), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@given(VALUES, st.sampled_from(GLOBS), st.integers(0, 4))
def test_what_is_plain_is_the_same_after_all_that_hides(value: object, glob: str, levels: int) -> None:
    redactor = Redactor(RecordSettings(redact=(glob,)))

    hidden = replace_secrets(hide_keys(value, redactor.hides, levels), redactor)

    assert hidden == value or not is_plain(redactor, value, levels)


def test_what_a_repeated_key_drops_is_not_shown_either(tmp_path: Path) -> None:
    found = recorded(
        decision(), fact(b'{"a":{"password":"hunter2"},"b":"sk-abcdefghijklmnop1234","a":1,"b":2}'), tmp_path
    )

    assert found["excerpt"] == {"a": 1, "b": 2}


@pytest.mark.parametrize("limit", range(10, 60, 7))
def test_a_cut_leaves_no_half_of_a_secret(tmp_path: Path, limit: int) -> None:
    payload = {"text": "a\nb", "more": "xoxb-1234567890-abcdefghij " * 30}

    found = recorded(decision(), fact(payload), tmp_path, excerpt_bytes=limit)

    assert "xox" not in found["excerpt_cut"]


@table(
    ("glob", "hidden", "shown"),
    [
        ("*pass*", ["pass", "myPASSword"], ["pas"]),
        ("*pass", ["pass", "myPass"], ["password"]),
        ("pass*", ["pass", "Password"], ["mypass"]),
        ("PASS", ["pass", "PASS"], ["pass1", "mypass"]),
        ("p?ss", ["pass", "PISS"], ["pss"]),
        ("p*s", ["pass", "ps"], ["pa"]),
        ("p[ai]ss", ["pass"], ["poss"]),
        ("*", ["", "x"], []),
    ],
)
def test_globs_of_keys(glob: str, hidden: list[str], shown: list[str]) -> None:
    redactor = Redactor(RecordSettings(redact=(glob,)))

    assert [redactor.hides(key) for key in (*hidden, *shown)] == [True] * len(hidden) + [False] * len(shown)


def test_a_secret_that_is_a_key_is_replaced_each_time() -> None:
    redactor, payload = Redactor(RecordSettings()), Payload(b'{"a":{"sk-abcdefghijklmnop1234":1}}')

    for _ in range(3):
        assert excerpt_payload(payload, 512, redactor) == (msgspec.Raw(b'{"a":{"[redacted]":1}}'), None)


def test_a_patch_is_redacted_as_the_payload_is(tmp_path: Path) -> None:
    patch = {"tool_input": msgspec.Raw(b'{ "password":"hunter2",\n"x": "sk-abcdefghijklmnop1234"}')}

    found = recorded(decision(patch=patch), fact(), tmp_path)

    assert found["patch"]["excerpt"] == {"tool_input": {"password": REDACTED, "x": REDACTED}}
    assert found["patch"]["bytes"] > 0


@pytest.mark.parametrize(
    "spelled",
    [rb"sk\u002dabcdefghijklmnop1234", rb"\u0073k-abcdefghijklmnop1234", rb"\ud83d\ude00 sk-abcdefghijklmnop1234"],
)
def test_how_a_client_spells_its_json_hides_no_secret(tmp_path: Path, spelled: bytes) -> None:
    data = b'{"a":"%b","\\u0070assword":"hunter2"}' % spelled

    found = recorded(decision(patch={"a": msgspec.Raw(b'"%b"' % spelled)}), fact(data), tmp_path)

    assert found["excerpt"]["a"].removeprefix("\N{GRINNING FACE} ") == REDACTED
    assert found["excerpt"]["password"] == REDACTED
    assert found["patch"]["excerpt"]["a"].removeprefix("\N{GRINNING FACE} ") == REDACTED


def test_the_lists_in_force_are_ones_own(tmp_path: Path) -> None:
    found = recorded(
        decision(), fact({"ours": "x", "password": "kept", "text": "a Q-17 b"}), tmp_path,
        redact=("OUR*",), redact_text=(r"\bQ-\d+",),
    )  # fmt: skip

    assert found["excerpt"] == {"ours": REDACTED, "password": "kept", "text": f"a {REDACTED} b"}


@pytest.mark.parametrize("pattern", ["^q$", r"\Aq\z", r"(?m)^q$", r"\Qq\E", "[^a-pr-z]", "q"])
def test_a_pattern_finds_in_one_text_of_many_what_it_finds_in_that_text_alone(pattern: str) -> None:
    redactor = Redactor(RecordSettings(redact_text=(pattern,)))

    assert not redactor.is_clean(json.dumps(["a", "q", "b"]).encode())
    assert not is_plain(redactor, ["a", "q", "b"])
    assert [redactor.clean(text) for text in ("a", "q", "b")] == ["a", REDACTED, "b"]


def test_texts_side_by_side_do_not_become_a_secret() -> None:
    redactor = Redactor(RecordSettings(redact_text=("ab", r"x\by")))

    assert redactor.is_clean(json.dumps(["a", "b", "x", "y"]).encode())
    assert is_plain(redactor, ["a", "b", "x", "y"])


def test_a_pattern_that_cannot_be_run_is_no_reason_to_stop() -> None:
    redactor = Redactor(RecordSettings(redact=("[", "x*"), redact_text=("(", "q")))

    assert redactor.hides("xy")
    assert redactor.clean("q(") == f"{REDACTED}("


def test_a_pattern_that_matches_nothing_at_all_replaces_nothing() -> None:
    assert Redactor(RecordSettings(redact_text=("x*",))).clean("abc") == "abc"


def test_what_is_cut_off_before_the_search_leaves_no_half_of_a_secret() -> None:
    redactor = Redactor(RecordSettings())
    text = "password=x " * (WINDOW // 12) + "sk-" + "a" * WINDOW

    assert "aaaa" not in redactor.clean(text)[:1000]


@table("secret", SECRETS)
def test_a_secret_among_many_plain_texts_is_found(secret: str) -> None:
    texts = ["a plain text"] * 50

    assert is_plain(Redactor(RecordSettings()), texts)
    assert not is_plain(Redactor(RecordSettings()), [*texts, secret, *texts])


def test_a_pattern_of_the_operators_own_is_searched_for_beside_the_known_ones() -> None:
    redactor = Redactor(msgspec.structs.replace(RecordSettings(), redact_text=(*REDACTED_TEXTS, r"acme-\d{4}")))

    assert is_plain(redactor, ["acme-12", "a plain text"])
    assert not is_plain(redactor, ["acme-1234"])
    assert not is_plain(redactor, [SECRETS[0]])


@table(
    ("value", "levels"),
    [
        ({"a": []}, 1),
        ({"a": [{}]}, 2),
        ([{"a": {"b": [1]}}], 3),
        ({"a": "b {[{"}, 0),
    ],
)
def test_what_is_nested_deeper_is_not_plain(value: Any, levels: int) -> None:
    redactor = Redactor(RecordSettings())

    assert is_plain(redactor, value, levels)
    assert not is_plain(redactor, value, levels - 1)


@pytest.mark.parametrize("text", ["[]", ' {"a":1}', "\n\u2028[", "\x1f{"])
def test_a_text_that_may_hold_json_is_looked_at_by_itself(text: str) -> None:
    assert not is_plain(Redactor(RecordSettings()), {"a": [1, text]})

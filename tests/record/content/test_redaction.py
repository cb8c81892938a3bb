"""What never reaches the record: values of certain keys at any depth, and known forms of secrets in any text."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from hooklatch.core.messages import Outcome
from hooklatch.record.content.redaction import REDACTED, WINDOW, Redactor
from hooklatch.record.settings import RecordSettings
from support.records import decision, fact, lines, recorded
from support.tables import table

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


@pytest.mark.parametrize("secret", ["sk-abcdefghijklmnop1234", "password=hunter2"])
def test_a_secret_in_what_a_hook_says_is_replaced(tmp_path: Path, secret: str) -> None:
    outcome = Outcome(layer="global", hook="x", outcome="failed", cause="crash", message=f"died: {secret}")
    given = decision(reason=f"no: {secret}", warnings=[f"look: {secret}"], outcomes=[outcome])

    found = recorded(given, fact(), tmp_path)

    assert found["reason"] == f"no: {REDACTED}"
    assert found["warnings"] == [f"look: {REDACTED}"]
    assert found["outcomes"][0]["message"] == f"died: {REDACTED}"
    assert secret.encode() not in b"".join(lines(tmp_path))


@pytest.mark.parametrize("key", KEYS)
def test_a_value_is_left_out_by_its_key_at_any_depth(tmp_path: Path, key: str) -> None:
    payload = {key: {"anything": 1}, "a": {"b": [{key: "hunter2", "kept": 1}]}}

    found = recorded(decision(), fact(payload), tmp_path)

    assert found["excerpt"] == {key: REDACTED, "a": {"b": [{key: REDACTED, "kept": 1}]}}


@pytest.mark.parametrize("text", PLAIN)
def test_an_ordinary_text_stays_as_it_is(tmp_path: Path, text: str) -> None:
    found = recorded(decision(reason=text), fact({"text": text}), tmp_path)

    assert (found["reason"], found["excerpt"]) == (text, {"text": text})


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


def test_a_secret_that_is_a_key_is_replaced(tmp_path: Path) -> None:
    found = recorded(decision(), fact({"a": {"sk-abcdefghijklmnop1234": 1}}), tmp_path)

    assert found["excerpt"] == {"a": {REDACTED: 1}}


def test_a_patch_is_redacted_as_the_payload_is(tmp_path: Path) -> None:
    patch = {"tool_input": msgspec.Raw(b'{ "password":"hunter2",\n"x": "sk-abcdefghijklmnop1234"}')}

    found = recorded(decision(patch=patch), fact(), tmp_path)

    assert found["patch"]["excerpt"] == {"tool_input": {"password": REDACTED, "x": REDACTED}}
    assert found["patch"]["bytes"] > 0


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
    assert [redactor.clean(text) for text in ("a", "q", "b")] == ["a", REDACTED, "b"]


def test_texts_side_by_side_do_not_become_a_secret() -> None:
    redactor = Redactor(RecordSettings(redact_text=("ab", r"x\by")))

    assert redactor.is_clean(json.dumps(["a", "b", "x", "y"]).encode())


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

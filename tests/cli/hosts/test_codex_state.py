"""Codex's trust: added as text that Codex reads, taken out without a trace, and nobody's own state is lost."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hooklatch.cli.hosts.changing import apply_edit
from hooklatch.cli.hosts.codex_trust import (
    TERMINALS_LINE,
    CodexConfigError,
    add_trust,
    plan_trust,
    plan_untrust,
    remove_trust,
)

HASHES = {"/h/hooks.json:pre_tool_use:0:0": "sha256:aa", '/h "x"/hooks.json:stop:0:0': "sha256:bb"}
TEXTS = [
    "",
    "model = 1",
    "# mine\r\nmodel = 1\r\n",
    '[hooks.state."/other:stop:0:0"]\ntrusted_hash = "sha256:cc"\n\n[a]\nb = [1,\n 2]\n',
    "[[hooks.Stop]]\nx = 1\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_trust_is_added_and_everything_else_is_as_it_was(text: str) -> None:
    after = add_trust(text, HASHES)

    state = tomllib.loads(after.replace("\r\n", "\n"))["hooks"]["state"]
    assert {key: one["trusted_hash"] for key, one in state.items()} == (
        HASHES | ({"/other:stop:0:0": "sha256:cc"} if "/other" in text else {})
    )
    assert after.startswith(text)
    assert add_trust(after, HASHES) == after
    assert remove_trust(after) in (text, f"{text}\n", f"{text}\r\n")


def test_what_codex_wrote_between_our_lines_stays() -> None:
    after = add_trust("", HASHES).replace(
        "# hooklatch: end", '[projects."/p"]\ntrust_level = "trusted"\n# hooklatch: end'
    )

    assert tomllib.loads(remove_trust(after)) == {"projects": {"/p": {"trust_level": "trusted"}}}


def test_a_stale_hash_is_replaced_in_its_place() -> None:
    key = next(iter(HASHES))
    text = f'[hooks.state."{key}"]\nenabled = true # mine\ntrusted_hash = "sha256:old"\n'

    assert add_trust(text, {key: "sha256:new"}) == text.replace("old", "new") + f"\n[features]\n{TERMINALS_LINE}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1\n",
        "[features]\r\nhooks = true\r\n",
        "[features] # mine\n[b]\n",
        '[features]\n"x" = 1',
        "a = 1\n\n[features]\n# mine\nhooks = true\n",
    ],
)
def test_terminals_are_turned_off_and_on_again(text: str) -> None:
    after = add_trust(text, HASHES)

    features = tomllib.loads(after.replace("\r\n", "\n"))["features"]
    assert features["unified_exec_tty"] is False
    assert {**tomllib.loads(text.replace("\r\n", "\n")).get("features", {}), **features} == features
    assert add_trust(after, HASHES).rstrip() == after.rstrip()
    assert remove_trust(after).strip() == text.strip()


def test_the_trust_in_another_file_of_entries_stays(tmp_path: Path) -> None:
    config, environ, keys = tmp_path / "config.toml", {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)}, [*HASHES]
    config.write_text("model = 1\n")

    for hashes in ({keys[0]: "sha256:aa", keys[1]: "sha256:old"}, {keys[1]: "sha256:bb"}):
        apply_edit(plan_trust(str(config), hashes, environ), "codex", environ)

    state = tomllib.loads(config.read_text())["hooks"]["state"]
    assert {key: table["trusted_hash"] for key, table in state.items()} == HASHES

    for path, rest in (('/h "x"/hooks.json', [keys[0]]), ("/h/hooks.json", [])):
        (change,) = plan_untrust(path, environ)
        apply_edit(change, "codex", environ)
        assert [*tomllib.loads(config.read_text()).get("hooks", {}).get("state", {})] == rest
    assert config.read_text() == "model = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "[features]\nunified_exec_tty = true\n",
        "features = {hooks = true}\n",
        "features = {}\n",
        "[ features ]\n",
    ],
)
def test_what_the_user_has_said_of_terminals_stays(text: str) -> None:
    assert tomllib.loads(add_trust(text, HASHES))["features"] == tomllib.loads(text)["features"]


def test_what_codex_adds_to_our_table_of_features_stays() -> None:
    after = add_trust("", {}) + "apps = true\n"

    assert tomllib.loads(remove_trust(after)) == {"features": {"apps": True}}


@pytest.mark.parametrize("text", ["a = ", "hooks = {}", "hooks = 1", "[hooks]\nstate = {}"])
def test_a_file_that_cannot_be_added_to_is_refused(text: str) -> None:
    with pytest.raises(CodexConfigError):
        add_trust(text, HASHES)

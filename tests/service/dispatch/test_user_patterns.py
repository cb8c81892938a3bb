"""Patterns of users, wherever they come from: RE2 runs them, or they are refused with what to write instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.matchers import MAX_STEPS, compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, ServedTarget
from hooklatch.core.hooks.snapshots import EventHooks
from hooklatch.core.payload import Payload
from hooklatch.dialects.find import load_built_in
from hooklatch.dialects.registration import read_registration
from hooklatch.importing import read_hooks
from hooklatch.service.config.configuration import ConfigError, read_config
from support.daemons import RpcFailure, running_daemon

LOOKING = "^(?!Read$).*"  # what somebody writes who knows another engine
INSTEAD = "write the exception as a second hook"
HEAVY = r"\pL{1000}"
TOML = f"""
[[hook]]
id = "in-toml"
event = "pre_tool_use"
command = "true"
match = {{ regex = '{LOOKING}' }}
"""
SOURCE = f"""
from hooklatch import hook

@hook("pre_tool_use", match={{"regex": {LOOKING!r}}})
def f(event): ...
"""
MATCHED = {
    "ethos": None,
    "exathena": {"PreToolUse": [{"matcher": LOOKING, "hooks": ["guard"]}]},
    "reasonix": {"event": "PreToolUse", "match": LOOKING, "command": "exit 2"},
    "radium": None,
    "beam": {"event": "pre_tool_use", "matcher": {"tool_name": LOOKING}, "id": "guard"},
}


def hook_of(match: object, name: str = "a") -> Hook:
    return Hook(
        id=name, event="user_prompt_submit", layer=Layer.GLOBAL, matcher=compile_matcher(match), target=ServedTarget(1)
    )


def is_blind(match: object, prompt: str, *, hooks: int = 1) -> bool:
    spec = Catalogue.standard()["user_prompt_submit"]
    payload = Payload(msgspec.json.encode({"prompt": prompt}))
    return bool(EventHooks(spec, [hook_of(match, str(number)) for number in range(hooks)]).select(payload).fault)


async def test_over_the_api_the_alternative_is_named(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        for match in ({"regex": LOOKING}, {"regex": HEAVY}, {"regex": "(a){1001}"}, {"glob": "[z-a]"}):
            with pytest.raises(RpcFailure, match=r"invalid_params: .*RE2 can run"):
                await client.call(
                    "register", hooks=[{"id": "a", "event": "pre_tool_use", "served": True, "match": match}]
                )


async def test_in_files_a_gate_that_cannot_match_denies_and_the_alternative_is_shown(tmp_path: Path) -> None:
    settings = {"hooks": {"PreToolUse": [{"matcher": LOOKING, "hooks": [{"type": "command", "command": "true"}]}]}}
    files = {
        "hooks.toml": TOML,
        "hooks.d/guards.py": SOURCE,
        "hooks.d/settings.json": json.dumps(settings),
    }

    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Read")
        listed = (await client.call("hooks"))["hooks"]

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert INSTEAD in decision["reason"]
    assert [hook["id"].partition(":PreToolUse")[0] for hook in listed] == ["in-toml", "guards:f", "settings"]
    assert all(hook["state"] == "inactive" and INSTEAD in hook["problem"] for hook in listed)


@pytest.mark.parametrize("name", ["settings.json", "reasonix.json"])
def test_an_imported_pattern_that_cannot_run_is_a_hook_to_be_mended(name: str) -> None:
    claude = {"matcher": LOOKING, "hooks": [{"type": "command", "command": "true"}]}
    entry: Any = claude if name == "settings.json" else {"match": LOOKING, "command": "true"}

    imported = read_hooks(name, json.dumps({"hooks": {"PreToolUse": [entry]}}).encode())

    assert INSTEAD in str(imported.hooks[0].problem)


@pytest.mark.parametrize("name", [name for name, table in MATCHED.items() if table is not None])
def test_in_a_dialect_the_alternative_is_named(name: str) -> None:
    (hook,) = read_registration(load_built_in(name), MATCHED[name])

    assert INSTEAD in str(hook.fault)


def test_what_is_redacted_by_a_pattern_is_checked_when_it_is_read() -> None:
    with pytest.raises(ConfigError, match=INSTEAD):
        read_config("/h/hooks.toml", b"[record]\nredact_text = ['(?=secret).*']\n")


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(a|a)*$", "(a|aa)+$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_what_runs_for_ever_in_other_engines_ends(pattern: str) -> None:
    matcher = compile_matcher({"regex": pattern, "search": True})

    assert not matcher.matches("a" * 100_000 + "!")


def test_a_value_so_long_that_matching_it_would_hold_everybody_up_is_not_matched() -> None:
    slow = {"regex": "[ab]*a[ab]{900}", "search": True}

    assert not is_blind(slow, "a" * 10_000)
    assert is_blind(slow, "a" * 1_000_000)
    assert is_blind({"regex": "sudo", "search": True}, "a" * 1_000_000, hooks=50), "many patterns are as slow as one"
    assert not is_blind({"regex": "sudo", "search": True}, "a" * 8_000_000)
    assert not is_blind(["a", "b"], "a" * 8_000_000, hooks=1000), "names are looked up"
    assert compile_matcher(slow).weight * 1_000_000 > MAX_STEPS


async def test_a_gate_whose_value_is_too_long_for_its_patterns_denies(tmp_path: Path) -> None:
    match = {"regex": "[ab]*a[ab]{900}", "search": True}
    hook = {"id": "a", "event": "user_prompt_submit", "served": True, "match": match}

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        await client.call("register", hooks=[hook])
        decision = await client.fire("user_prompt_submit", prompt="a" * 1_000_000)

    assert (decision["verdict"], decision["cause"]) == ("deny", "payload")
    assert "too long to match" in decision["reason"]

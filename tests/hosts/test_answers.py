"""For every host, gate and decision: the answer is never less strict than the decision, and rubbish is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.messages import Cause, FireDecision
from hooklatch.hosts.find import HOSTS, find_host, list_hosts
from hooklatch.hosts.host import HookOutput, UnreadableError
from support.honoured import GATES, effect, said
from support.native import answered, decided, native
from support.profiles import examples
from support.tables import table

INPUT = {"command": "rm", "nested": {"a": 1, "b": 2}}
CATALOGUE = Catalogue.standard()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
inputs = st.dictionaries(st.sampled_from(["command", "nested", "x"]), values, max_size=3)
patches = st.none() | st.dictionaries(
    st.sampled_from(["tool_input", "prompt", "permissions", "content", "worktree_path"]), inputs | values, max_size=2
)
texts = st.none() | st.text(max_size=20)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str, FireDecision]:
    host, event = draw(st.sampled_from(GATES))
    canonical = find_host(host).events[event].event
    decision = decided(
        draw(st.sampled_from(["pass", "allow", "ask", "deny", "halt", "claim"])),
        patch=draw(patches),
        event=canonical,
        reason=draw(texts),
        hook=draw(texts),
        layer=draw(texts),
        append=draw(texts),
        instead=draw(texts),
        warnings=draw(st.lists(st.text(max_size=9), max_size=2)),
        cause=draw(st.sampled_from(["policy", "crash", "timeout", None])),
    )
    return host, event, decision


@examples(100)
@given(case=cases())
def test_an_answer_is_never_less_strict_than_the_decision(case: tuple[str, str, FireDecision]) -> None:
    never_less_strict(*case)


PATCHES: list[dict[str, Any] | None] = [
    None, {"tool_input": {"command": "ls"}}, {"tool_input": {**INPUT, "command": "ls"}}, {"tool_input": "ls"},
    {"tool_input": {**INPUT, "nested": {"a": 1}}}, {"prompt": "p"}, {"permissions": []}, {"content": {}},
    {"worktree_path": "/w"}, {"tool_input": {**INPUT, "command": "ls"}, "prompt": "p"},
]  # fmt: skip


@table(("host", "event"), GATES)
@table("verdict", ["pass", "allow", "ask", "deny", "halt", "claim"])
@table("patch", PATCHES)
def test_no_gate_of_any_host_is_told_less_than_was_decided(
    host: str, event: str, verdict: str, patch: dict[str, Any] | None
) -> None:
    never_less_strict(host, event, decided(verdict, patch=patch, append="text for the model"))


def never_less_strict(host: str, event: str, decision: FireDecision) -> None:
    done = effect(host, event, answered(host, event, decision, tool_input=INPUT), INPUT)

    patch = {key: msgspec.json.decode(raw) for key, raw in (decision.patch or {}).items()}
    match decision.verdict:
        case "pass":
            assert done.done in ("passed", "asked", "blocked")
        case "allow":
            assert done.done in ("allowed", "passed", "asked", "blocked")
        case "ask":
            assert done.done in ("asked", "blocked")
        case _:
            assert done.done == "blocked"
    if done.done != "blocked" and "tool_input" in patch and host != "generic":
        assert done.input == patch["tool_input"]
    if done.done != "blocked" and host != "generic":
        assert patch.keys() <= find_host(host).events[event].patch


@examples(100)
@given(case=cases())
def test_what_fits_is_what_is_told_and_each_difference_is_said(case: tuple[str, str, FireDecision]) -> None:
    host, event, decision = case
    seen = native(host, event, tool_input=INPUT)

    fit = find_host(host).fit(seen, decision)

    assert find_host(host).fit(seen, fit).verdict == fit.verdict
    assert find_host(host).express(seen, fit, None) == find_host(host).answer(seen, decision)
    if fit.verdict != decision.verdict:
        assert len(fit.warnings) > len(decision.warnings)


@pytest.mark.parametrize("host", list_hosts())
@examples(30)
@given(data=st.data())
def test_rubbish_at_a_gate_is_refused_in_a_form_that_the_host_honours(host: str, data: st.DataObject) -> None:
    event = data.draw(st.sampled_from([one for name, one in GATES if name == host]))
    good = json.dumps({"hook_event_name": event, "event": event, "tool_name": "Bash", "tool_input": INPUT}).encode()
    document = data.draw(
        st.binary(max_size=60)
        | st.builds(lambda cut: good[:cut], st.integers(0, len(good) - 1))
        | st.builds(
            lambda at, byte: good[:at] + byte + good[at:], st.integers(0, len(good)), st.binary(min_size=1, max_size=3)
        )
        | st.builds(lambda value: json.dumps(value).encode(), values)
    )

    refused = refusal_of(host, event, document)

    if refused is not None:
        assert effect(host, event, refused).done == "blocked"


def refusal_of(host: str, event: str, document: bytes) -> HookOutput | None:
    """Return what a document that cannot be judged is answered with; None if it can be judged."""
    adapter = find_host(host)
    try:
        adapter.make_fire(adapter.read(event, document, {}))
    except UnreadableError as error:
        assert error.event == event  # noqa: PT017
        return adapter.failure(error.event, error.cause, str(error))
    return None


@table(("host", "event"), GATES)
@table("cause", ["no_daemon", "protocol", "payload"])
def test_a_failure_blocks_a_gate_and_says_so(host: str, event: str, cause: Cause) -> None:
    output = find_host(host).failure(event, cause, "what happened")

    assert effect(host, event, output).done == "blocked"
    if event not in ("Elicitation", "ElicitationResult"):  # their answer has no place for a reason
        assert "what happened" in output.stdout + output.stderr


@table(("host", "event"), GATES)
@table("verdict", ["deny", "ask"])
def test_each_host_gives_its_model_the_command_to_run_instead(host: str, event: str, verdict: str) -> None:
    decision = decided(verdict, reason="because", instead="git push --force-with-lease")

    output = answered(host, event, decision, tool_input=INPUT)

    text = output.stdout + output.stderr
    assert ("because" in text) is ("Instead, run: git push --force-with-lease" in text)
    if event not in ("Elicitation", "ElicitationResult"):  # their answer has no place for a reason
        assert "because" in text or verdict == "ask"


OTHERS = [
    (name, event) for name in list_hosts() for event, spec in find_host(name).events.items() if spec.kind != "gate"
]  # fmt: skip


@table(("host", "event"), OTHERS)
def test_a_failure_of_any_other_event_is_silent(host: str, event: str) -> None:
    output = find_host(host).failure(event, "protocol", "what happened")

    assert (said(output), output.stderr, output.exit_code) == ({}, "", 0)


@table(("host", "event"), OTHERS)
@table("verdict", ["pass", "halt", "deny", "ask"])
def test_no_event_without_a_gate_refuses_anything(host: str, event: str, verdict: str) -> None:
    decision = decided(verdict, reason="because")

    output = answered(host, event, decision)

    assert output.exit_code == 0
    assert said(output).get("decision") in (None, "pass")
    can = find_host(host).events[event].enforces
    warned = find_host(host).fit(native(host, event), decision).warnings
    assert bool(warned) is (verdict != "pass" and verdict not in can)


def test_an_unknown_event_is_refused() -> None:
    for host in list_hosts():
        output = find_host(host).failure("no-such-event", "protocol", "why")

        assert output.exit_code == 2 or host in ("opencode", "cline")
        assert "why" in output.stdout + output.stderr


# --- tables agree


@table("host", list_hosts())
def test_a_host_promises_nothing_that_the_catalogue_refuses(host: str) -> None:
    for name, event in find_host(host).events.items():
        if not event.event:
            assert event.kind == "notify", name
            assert not event.enforces, name
            continue
        spec = CATALOGUE[event.event]
        allowed = set(spec.verdicts)
        allowed |= {"patch"} if spec.patch else set()
        allowed |= {"context"} if spec.outputs & {"inject", "append"} else set()
        allowed |= {"resume"} if "resume" in spec.outputs else set()
        assert event.enforces <= allowed, name
        assert event.patch <= spec.patch, name
        assert ("patch" in event.enforces) is bool(event.patch), name


@table("host", list_hosts())
def test_a_gate_can_deny_and_is_one_in_the_catalogue(host: str) -> None:
    for name, event in find_host(host).events.items():
        if event.kind == "gate":
            assert "deny" in event.enforces, name
            assert CATALOGUE[event.event].is_gate, name
        else:
            assert "deny" not in event.enforces, name


@table("host", list_hosts())
def test_an_entry_waits_less_long_than_its_host(host: str) -> None:
    for name, event in find_host(host).events.items():
        assert event.wait < event.limit, name
        assert (event.wait > 0) is (event.kind != "notify"), name


def test_a_host_is_found_by_what_people_call_it() -> None:
    for host in list_hosts():
        assert find_host(host).name == host
        assert all(find_host(alias.upper()).name == host for alias in HOSTS[host][1:])
    assert find_host("Claude Code").name == "claude-code"

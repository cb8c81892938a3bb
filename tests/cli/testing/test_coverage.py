"""What cases have seen of each hook."""

from __future__ import annotations

from typing import Any

import msgspec

from cli.testing.test_policy_tests import decision
from hooklatch.cli.testing.coverage import CaseObservation, cover_hooks
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.core.hooks.conditions import compile_where
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import Hook, Layer, PythonTarget
from hooklatch.core.messages import CallOutcome
from hooklatch_worker.wire import Source
from support.tables import table

PASSED: dict[str, Any] = {}
DENIED = {"verdict": "deny"}
CHANGED = {"verdict": "allow", "patch": {"tool_input": msgspec.Raw(b"{}")}}
CRASHED = {"cause": "crash", "outcome": "failed"}


def hook(event: str, **fields: Any) -> Hook:
    target = PythonTarget(Source("file", "/g.py"), 0, "f")
    return Hook(id="a", event=event, layer=Layer.GLOBAL, matcher=compile_matcher(None), target=target, **fields)


def seen(*hooks: Hook, **fields: Any) -> CaseObservation:
    return CaseObservation(decision(**fields), hooks)


@table(
    ("event", "amends", "outcomes", "missing"),
    [
        ("pre_tool_use", False, [], ["no case calls it"]),
        ("pre_tool_use", False, [PASSED], ["no case that it denies"]),
        ("pre_tool_use", False, [DENIED], ["no case that it lets pass"]),
        ("pre_tool_use", False, [DENIED, PASSED], []),
        ("pre_tool_use", False, [{"verdict": "ask"}, {"verdict": "allow"}], []),
        ("pre_tool_use", False, [{"verdict": "allow"}], ["no case that it denies"]),
        ("pre_tool_use", False, [CRASHED], ["no case that it denies", "no case that it lets pass"]),
        ("pre_tool_use", True, [PASSED], ["no case that it changes"]),
        ("pre_tool_use", True, [CHANGED], []),
        ("post_tool_use", False, [PASSED], []),
        ("post_tool_use", False, [CRASHED], ["it fails in each of its cases"]),
    ],
)
def test_a_hook_lacks_what_no_case_has_seen(
    event: str, amends: bool, outcomes: list[dict[str, Any]], missing: list[str]
) -> None:
    own = hook(event, amends=amends)
    cases = [
        seen(own, event=event, outcomes=[CallOutcome(**{"layer": "global", "hook": "a", "cause": "policy", **one})])
        for one in outcomes
    ]

    (covered,) = cover_hooks([own], cases, Catalogue.standard())

    assert covered.missing == missing


def test_a_condition_lets_pass_too_where_nobody_else_refuses_and_its_matcher_accepts() -> None:
    guard = hook("pre_tool_use", where=compile_where({"command": "rm"}))
    denied = seen(guard, outcomes=[CallOutcome(layer="global", hook="a", cause="policy", verdict="deny")])
    by_another = [CallOutcome(layer="global", hook="b", cause="policy", verdict="deny")]
    passed = seen(guard, verdict="pass")

    found = [
        cover_hooks([guard], cases, Catalogue.standard())[0].missing
        for cases in (
            [denied, passed],
            [denied, seen(guard, outcomes=by_another, verdict="deny")],
            [denied, seen(verdict="pass")],
            [passed],
        )
    ]

    lacks = ["no case that it lets pass"]
    assert found == [[], lacks, lacks, ["no case calls it"]]


def test_hooks_that_lack_something_come_first() -> None:
    said = seen(outcomes=[CallOutcome(layer="global", hook="a", cause="policy", verdict="deny")] * 2)
    other = msgspec.structs.replace(hook("pre_tool_use", amends=True), id="b")

    covered = cover_hooks([hook("stop"), other], [said], Catalogue.standard())

    assert [(one.hook, bool(one.missing)) for one in covered] == [("global/a", True), ("global/b", True)]

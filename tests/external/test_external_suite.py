"""All vectors of an independent kit, agent-hooks-sdk[ctk], against a real client, a real daemon and real workers.

Slow: the first test here starts a daemon and runs them all, some three seconds; the others look at what came of it.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from agent_hooks.ctk import Capability, VectorResult, load_vectors, run_vector

import hooklatch
from external.harness import Harness, verdict_of
from external.points import POINTS
from support.commands import Daemon, new_place, serving

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/reference/external-suite.md"
FILES = {name: (HERE / name).read_text() for name in ("hooks.toml", "interceptors.py", "points.py")}
VECTORS = {vector["id"]: vector for vector in load_vectors()}

# Every other capability that a vector needs is declared. docs/reference/external-suite.md says the reasons to readers.
SKIPS = {
    Capability.INCREMENTAL_OUTPUT: {"AH-CTK-110", "AH-CTK-111", "AH-CTK-112", "AH-CTK-113"},
}

# The failures that vectors script; what else fails would deny too, and could pass for a refusal that a vector wants.
FAILURES = {
    "AH-CTK-070": ["crash"],
    "AH-CTK-071": ["protocol"],
    "AH-CTK-094": ["crash"],
    "AH-CTK-097": ["crash"],
}

# What these test comes before any interceptor is asked: none is bound, an identity fails, or no emitter is built.
WITHOUT_CALLS = {
    "AH-CTK-061", "AH-CTK-096", "AH-CTK-101", "AH-CTK-125", "AH-CTK-126", "AH-CTK-127", "AH-CTK-128", "AH-CTK-129",
    "AH-CTK-130", "AH-CTK-131", "AH-CTK-132", "AH-CTK-133", "AH-CTK-134", "AH-CTK-135", "AH-CTK-136", "AH-CTK-137",
    "AH-CTK-138", "AH-CTK-139", "AH-CTK-141", "AH-CTK-143",
}  # fmt: skip


class Ran(NamedTuple):
    result: VectorResult
    harness: Harness


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_place(FILES) as place, serving(place) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def ran(daemon: Daemon) -> dict[str, Ran]:
    async def run_all() -> dict[str, Ran]:
        return {name: await run(vector, daemon) for name, vector in VECTORS.items()}

    return asyncio.run(run_all())


async def run(vector: dict[str, Any], daemon: Daemon, socket: str | None = None) -> Ran:
    journals = Path(tempfile.mkdtemp(dir=daemon.place.folder))
    source = daemon.place.config.parent / "interceptors.py"
    harness = Harness(socket or daemon.ready["agent"], source, journals)
    return Ran(await run_vector(harness, vector), harness)


def skipped(ran: dict[str, Ran]) -> set[str]:
    return {name for name, (result, _) in ran.items() if result.status == "skip"}


@pytest.mark.parametrize("name", VECTORS)
def test_the_vector_passes(ran: dict[str, Ran], name: str) -> None:
    result = ran[name].result

    if name in set().union(*SKIPS.values()):
        pytest.skip(result.detail)
    assert (result.status, result.failures) == ("pass", [])


def test_all_75_vectors_run_but_for_the_named_skips(ran: dict[str, Ran]) -> None:
    passed = {name for name, (result, _) in ran.items() if result.status == "pass"}

    assert len(VECTORS) == 75
    assert skipped(ran) == set().union(*SKIPS.values())
    assert len(passed) == 75 - 4


def test_what_is_skipped_needs_a_capability_that_is_not_declared(ran: dict[str, Ran]) -> None:
    for capability, names in SKIPS.items():
        assert capability not in Harness.capabilities
        for name in names:
            assert capability.value in VECTORS[name]["capabilities"]


def test_every_vector_that_asks_an_interceptor_asks_a_worker(ran: dict[str, Ran]) -> None:
    silent = {name for name, (_, harness) in ran.items() if not harness.decisions}

    assert silent - skipped(ran) == WITHOUT_CALLS


def test_every_call_is_decided_by_the_one_hook_in_a_worker(ran: dict[str, Ran]) -> None:
    decisions = [decision for _, harness in ran.values() for decision in harness.decisions]

    hooks = {f"ctk-{name}" for name in POINTS}
    assert all({outcome.hook for outcome in decision.outcomes} <= hooks for decision in decisions)
    assert all(decision.outcomes and not decision.is_local for decision in decisions)
    assert {decision.event for decision in decisions} == {point.event for point in POINTS.values()}


def test_nothing_fails_but_what_a_vector_makes_fail(ran: dict[str, Ran]) -> None:
    causes = {
        name: [decision.cause for decision in harness.decisions if decision.cause not in (None, "policy")]
        for name, (_, harness) in ran.items()
    }

    assert {name: found for name, found in causes.items() if found} == FAILURES


def test_without_a_daemon_no_interceptor_is_played(daemon: Daemon, tmp_path: Path) -> None:
    result, harness = asyncio.run(run(VECTORS["AH-CTK-001"], daemon, str(tmp_path / "no.sock")))

    assert result.status == "fail"
    assert {(decision.verdict, decision.cause) for decision in harness.decisions} == {("deny", "no_daemon")}


def test_each_call_hands_the_worker_the_context_that_the_kit_handed_out(ran: dict[str, Ran]) -> None:
    crossings = [crossing for _, harness in ran.values() for crossing in harness.crossings]

    assert any(crossing.handed_and_seen for crossing in crossings)
    for crossing in crossings:
        assert len(crossing.handed_and_seen) == len(crossing.decisions)
        for handed, seen in crossing.handed_and_seen:
            assert json.dumps(seen, sort_keys=True) == json.dumps(handed, sort_keys=True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("AH-CTK-070", "host_error:interceptor_failed"), ("AH-CTK-071", "host_error:verdict_invalid")],
)
def test_a_failure_is_on_record_as_the_kind_that_it_was(daemon: Daemon, name: str, reason: str) -> None:
    """The vectors ask for a deny only; whether a crash and an illegal answer are told apart is left to the host."""
    record = {"interception_point": "pre_tool_call", "assert": {"verdict.reason": reason, "decided_by": 0}}
    vector = {**VECTORS[name], "expect": {**VECTORS[name]["expect"], "records": [record]}}

    result, _ = asyncio.run(run(vector, daemon))

    assert (result.status, result.failures) == ("pass", [])


def test_a_hook_that_was_too_late_is_a_timeout_to_the_kit() -> None:
    late = hooklatch.Decision(decision_id="1", event="pre_tool_use", verdict="deny", cause="timeout", revision=1)

    with pytest.raises(TimeoutError):
        verdict_of(late, {})


@pytest.mark.parametrize(
    ("point", "path", "value", "patch"),
    [
        ("input", "$target.content", "2", {"prompt": "2"}),
        ("input", "$target.role", "system", {"params": {"role": "system"}}),
        ("pre_model_call", "$target", [], {"request": {"messages": []}}),
        ("post_tool_call", "$target", "5", {"tool_response": "5"}),
        ("output", "$target.content", "Five.", {"output": {"content": "Five."}}),
    ],
)
def test_a_transform_is_a_patch_of_the_event(
    daemon: Daemon, point: str, path: str, value: object, patch: dict[str, Any]
) -> None:
    """The vectors of the kit transform only before a tool call; these are in its form."""
    script = {"at": point, "return": {"decision": "transform", "transform": {"path": path, "value": value}}}
    record = {"interception_point": point, "assert": {"verdict.decision": "transform", "verdict.transform.path": path}}
    expected = {"sequence_strict": False, "interceptions": [], "records": [record], "run_outcome": "completed"}
    vector = {**VECTORS["AH-CTK-001"], "id": point, "interceptor_script": [script], "expect": expected}

    result, harness = asyncio.run(run(vector, daemon))

    assert (result.status, result.failures) == ("pass", [])
    assert patch in [decision.patch for decision in harness.decisions if decision.event == POINTS[point].event]


def test_integers_beyond_64_bits_arrive_as_they_were(daemon: Daemon, tmp_path: Path) -> None:
    """What the declared capability bigint_json says of the harness holds for the way to the worker as well."""
    journal = tmp_path / "journal"
    source = daemon.place.config.parent / "interceptors.py"
    hook = {"event": "output", "run": f"{source}:play", "config": {"rules": [], "journal": str(journal)}}

    with hooklatch.connect_sync(daemon.ready["agent"], hooks=[hook]) as session:
        session.fire("output", output={"content": 2**64 + 1}, envelope={"metadata": {"interception_point": "output"}})

    assert json.loads(journal.read_text())["context"]["target"] == {"content": 2**64 + 1}


def test_the_table_in_the_docs_is_what_came_of_the_vectors(ran: dict[str, Ran]) -> None:
    found = re.search(r"^\| part \|.*?\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)

    assert found is not None
    assert found.group().strip() == table(ran)


def table(ran: dict[str, Ran]) -> str:
    """Write the results as the page has them; paste it there when the kit's version changes."""
    parts: dict[str, list[Ran]] = {}
    for name, one in ran.items():
        parts.setdefault(VECTORS[name].get("part", "core"), []).append(one)
    rows = [row(part, each) for part, each in parts.items()]
    return "\n".join(["| part | vectors | passed | skipped | calls |", "|---|---|---|---|---|", *rows,
                      row("all", list(ran.values()))])  # fmt: skip


def row(part: str, each: list[Ran]) -> str:
    statuses = [one.result.status for one in each]
    calls = sum(len(one.harness.decisions) for one in each)
    return f"| {part} | {len(each)} | {statuses.count('pass')} | {statuses.count('skip')} | {calls} |"

"""Why a hook failed: what is kept of its last failures, for how long, and who is shown it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hooklatch.core.hooks.registry import Hook, ServedTarget
from hooklatch.core.messages import CallOutcome
from hooklatch.service.registry.failure_log import KEPT_FAILURES, MAX_BYTES, Failures, estimate_size
from support import plays
from support.daemons import RpcFailure, running_daemon

CONFIG = '[[source]]\npath = "guards.py"\n'
GUARDS = """
from hooklatch import deny, hook

@hook("pre_tool_use", match=["Read", "Bash"])
def reader(event):
    helper(event.tool_input["file"]) if event.tool_name == "Read" else None

def helper(name):
    raise LookupError(f"no {name}")
"""


def called(failures: Failures, hook: Hook, *outcomes: CallOutcome) -> None:
    for number, outcome in enumerate(outcomes):
        if outcome.cause == "policy":
            failures.note_success(hook)
        else:
            failures.note_failure(
                hook, outcome, decision_id=f"d-{number}", event="pre_tool_use", subject="rm x", session=None
            )


CRASH = CallOutcome(cause="crash", message="it broke", traceback="Traceback ...")


def test_the_last_failures_are_kept_newest_first_and_few_of_them() -> None:
    failures, hook = Failures(), plays.hook("a")

    called(failures, hook, *[CRASH] * (KEPT_FAILURES + 2), CallOutcome(cause="policy"))

    assert [one["decision_id"] for one in failures.of(hook)] == [f"d-{number}" for number in (6, 5, 4, 3, 2)]
    assert failures.of(hook)[0]["traceback"] == "Traceback ..."


def test_calls_that_were_not_made_do_not_push_out_why() -> None:
    failures, hook = Failures(), plays.hook("a")

    called(failures, hook, CRASH, *[CallOutcome(cause="quarantined"), CallOutcome(cause="overload")] * KEPT_FAILURES)

    assert [one["cause"] for one in failures.of(hook)] == ["crash"]
    assert [(one["hook"], one["count"], one["cause"]) for one in failures.find_failing([hook])] == [
        (hook.name, 11, "crash")
    ]


def test_one_good_call_or_a_new_version_ends_the_row_of_failures() -> None:
    failures, hook = Failures(), plays.hook("a")
    called(failures, hook, *[CRASH] * 4)
    few = failures.find_failing([hook])
    called(failures, hook, CRASH)
    row = failures.find_failing([hook])
    mended = plays.hook("a", target=ServedTarget(7))
    of_the_mended = failures.find_failing([mended])
    called(failures, hook, CallOutcome(cause="policy"))

    assert few == []
    assert [one["count"] for one in row] == [5]
    assert of_the_mended == failures.find_failing([hook]) == []


def test_hooks_of_one_name_in_two_sessions_are_two_and_are_forgotten_with_them() -> None:
    failures, one, other = Failures(), plays.hook("a", owner="s1"), plays.hook("a", owner="s2")
    called(failures, one, CRASH)
    called(failures, other, CRASH, CRASH)

    failures.forget("s2")

    assert (len(failures.of(one)), failures.of(other)) == (1, [])


def test_what_is_kept_is_bounded_whoever_fails_with_whatever_words() -> None:
    failures = Failures()
    loud = CallOutcome(cause="crash", message="m" * 10**6, traceback="t" * 10**6, stderr="e" * 10**6)
    hooks = [plays.hook(f"h{number}") for number in range(200)]

    for hook in hooks:
        called(failures, hook, *[loud] * 6)

    kept = [one for hook in hooks for one in failures.of(hook)]
    assert sum(map(estimate_size, kept)) <= MAX_BYTES
    assert failures.of(hooks[0]) == []
    assert len(failures.of(hooks[-1])) == KEPT_FAILURES


@pytest.mark.slow
async def test_an_administrator_is_shown_the_traceback_and_a_session_that_of_its_own_hooks_alone(
    tmp_path: Path,
) -> None:
    """Slow: it starts a daemon."""
    own = {"id": "own", "event": "pre_tool_use", "match": "Bash", "run": str(tmp_path / "guards.py") + ":reader"}
    files = {"hooks.toml": CONFIG, "guards.py": GUARDS}
    async with (
        running_daemon(tmp_path, files) as daemon,
        daemon.session(id="s1") as client,
        daemon.administrator() as admin,
    ):
        await client.call("register", hooks=[{**own, "match": "Read"}])
        decisions = [await client.fire_tool("Read", file="secret") for _ in range(5)]
        by_admin = (await admin.call("hook", id="guards:reader"))["hooks"]
        by_session = (await client.call("hook", id="global/guards:reader"))["hooks"]
        of_own = (await client.call("hook", id="own"))["hooks"]
        unknown = None
        try:
            await admin.call("hook", id="guards:raeder")
        except RpcFailure as failure:
            unknown = failure
        status, own_status = await admin.call("status"), await client.call("status")

    [hook] = by_admin
    [newest, *_] = hook["last_failures"]
    assert hook["origin"] == f"{tmp_path}/guards.py:4"
    assert newest["decision_id"] == decisions[-1]["decision_id"]
    assert newest["message"] == "LookupError: no secret (guards.py:9)"
    assert 'guards.py", line 6, in reader' in newest["traceback"]
    assert (newest["session"], len(hook["last_failures"])) == ("s1", 5)
    assert [one["last_failures"] for one in by_session] == [None]
    assert [one["owner"] for one in of_own] == ["s1"]
    assert of_own[0]["last_failures"] == []  # the gate was refused before it
    assert [(one["hook"], one["count"], one["cause"]) for one in status["failing"]] == [
        ("global/guards:reader", 5, "crash")
    ]
    assert own_status["failing"] == []
    assert unknown is not None
    assert unknown.message.startswith("there is no hook 'guards:raeder'; did you mean 'guards:reader'?")

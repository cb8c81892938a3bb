"""The whole gallery, switched on, over what agents really did.

Slow: a real daemon with a worker for each guard.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from guards.gallery import NAMES
from guards.recorded import REFUSED, recorded
from hooklatch.guards.catalogue import read_guard_source
from support.daemons import running_daemon

pytestmark = pytest.mark.slow


def about(params: Any) -> str:
    payload = msgspec.json.decode(bytes(params.payload), type=dict[str, Any])
    told = payload.get("tool_args") or payload.get("tool_input") or {}
    return str(told.get("command") or told.get("path") or payload.get("tool_name") or params.event)


async def test_what_agents_did_passes_but_for_what_is_listed(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_text("")
    judging = [name for name in NAMES if name != "audit_otel"]  # it has no opinion, and no receiver here
    refused: set[tuple[str, str]] = set()
    asked = 0

    async with running_daemon(tmp_path, {f"hooks.d/{name}.py": read_guard_source(name) for name in judging}) as daemon:
        assert daemon.parts.reloader.active.diagnostics == []
        for case in recorded(transcript):
            decision = await daemon.parts.dispatcher.fire(case.params, None)
            assert [one.message for one in decision.outcomes if one.cause not in (None, "policy")] == []
            asked += len(decision.outcomes)
            if decision.verdict not in ("pass", "allow") or decision.append:
                refused.add((str(decision.hook or "injection_marks").partition(":")[0], about(case.params)))

    assert asked > 60, "the guards were asked"
    assert refused == REFUSED.keys()

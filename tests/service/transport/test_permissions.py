"""What the agent socket does not give: the admin's methods, other sessions, and the tokens that join them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from support.daemons import RpcFailure, running_daemon


async def test_every_method_of_the_admin_is_refused_on_the_agent_socket(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        tables = daemon.parts.methods.tables
        methods = sorted(tables["admin"].keys() - tables["agent"].keys())
        names = []
        for method in methods:
            with pytest.raises(RpcFailure) as caught:
                await client.call(method, folder=str(tmp_path), hook="x", reason="x", seconds=1)
            names.append(caught.value.name)

    assert {"reload", "trust", "untrust"} <= set(methods)
    assert set(names) == {"not_admin"}


@pytest.mark.parametrize("method", ["hooks", "explain"])
async def test_another_sessions_view_is_not_shown(tmp_path: Path, method: str) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.session(id="theirs"), daemon.session() as client:
        with pytest.raises(RpcFailure, match="not_admin"):
            await client.call(method, session="theirs", event="stop")
        seen = [session["id"] for session in (await client.call("sessions"))["sessions"]]

    assert "theirs" not in seen


async def test_a_resume_token_is_long_random_and_told_to_its_own_session_alone(tmp_path: Path) -> None:
    async with (
        running_daemon(tmp_path) as daemon,
        daemon.administrator() as admin,
        daemon.session(id="one") as one,
        daemon.session(id="two") as two,
    ):
        tokens = [client.hello["resume_token"] for client in (one, two)]  # type: ignore[attr-defined]
        told = [
            json.dumps(await client.call(method))
            for client in (one, two, admin)
            for method in ("sessions", "status", "hooks")
        ]

    assert [len(base64.urlsafe_b64decode(token + "=")) for token in tokens] == [32, 32]
    assert tokens[0] != tokens[1]
    assert not any(token in text for token in tokens for text in told)

"""The link says what the engine has; retention believes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.daemons import RpcFailure, running_daemon
from support.fleets import fleet_table, link_of


async def test_what_the_link_says_counts_until_the_fleet_is_another_one(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon, daemon.administrator() as admin:

        async def shipping() -> dict[str, Any]:
            return (await admin.call("status"))["record"]["shipping"]

        at_first = await shipping()
        async with link_of(daemon) as link:
            head = daemon.parts.record.head
            assert head is not None
            await link.call("fleet_shipped", seq=head.seq)
        after = await shipping()
        daemon.write("hooks.toml", fleet_table().replace("acme", "other"))
        await admin.call("reload")
        anew = await shipping()
        daemon.write("hooks.toml", "")
        await admin.call("reload")
        without = await shipping()

    assert at_first["shipped_seq"] is None
    assert at_first["waiting_records"] == head.seq
    assert (after["shipped_seq"], after["waiting_records"]) == (head.seq, 0)
    assert anew["shipped_seq"] is None
    assert without is None


@pytest.mark.parametrize("seq", [-1, 10**9, 2**70, 1.5, "1", None])
async def test_what_cannot_have_been_shipped_is_refused_and_changes_nothing(tmp_path: Path, seq: object) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon, link_of(daemon) as link:
        await link.call("fleet_shipped", seq=1)
        with pytest.raises(RpcFailure, match="invalid_params"):
            await link.call("fleet_shipped", seq=seq)
        shipped = daemon.parts.record.status()["shipping"]["shipped_seq"]

    assert shipped == 1


async def test_a_restart_has_been_told_nothing(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon, link_of(daemon) as link:
        await link.call("fleet_shipped", seq=2)
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon:
        shipped = daemon.parts.record.status()["shipping"]["shipped_seq"]

    assert shipped is None


@pytest.mark.parametrize("main", ["[fleet]\nnam = 1", None])
async def test_settings_that_nobody_knows_remove_nothing(tmp_path: Path, main: str | None) -> None:
    """Neither the main file nor the state can be read: whether this host is in a fleet, and how much it keeps."""
    files = {"hooks.toml": main} if main is not None else {}

    async with running_daemon(tmp_path, {**files, "state/state.json": "{"}) as daemon:
        is_settled = daemon.parts.record._is_settled

    assert not is_settled

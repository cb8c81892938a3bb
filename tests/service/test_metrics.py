"""The page and the file of metrics: scraped from a real port, read by the library's own parser."""

from __future__ import annotations

import http.client
import os
import re
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hooklatch.metrics import measure_daemon
from hooklatch_worker.systems import linux, system
from support.daemons import Daemon, running_daemon
from support.fleets import fleet_table
from support.pools import until
from support.repository import ROOT

GUARD = """
from hooklatch import allow, deny, hook

@hook("pre_tool_use", match=["Bash", "Read", "Crash"])
def judge(event):
    if event.tool_name == "Crash":
        raise ValueError("a bug")
    return deny("no") if event.tool_name == "Bash" else allow()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def files(*, port: int | None = None, file: Path | None = None) -> dict[str, str]:
    lines = ["[daemon]", *([f"metrics_port = {port}"] if port else []), *([f'metrics_file = "{file}"'] if file else [])]
    return {"hooks.toml": '[[source]]\npath = "guards.py"\n' + "\n".join(lines) + "\n", "guards.py": GUARD}


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def got(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    return await trio.to_thread.run_sync(ask, port, path, method)


async def until_answered(port: int, path: str = "/metrics") -> tuple[int, str]:
    with trio.fail_after(10):
        while True:
            try:
                return await got(port, path)
            except OSError:
                await trio.sleep(0.01)


async def until_refused(port: int) -> None:
    with trio.fail_after(10):
        while True:
            try:
                await got(port, "/metrics")
            except ConnectionRefusedError:
                return
            except OSError:
                continue  # it came while the port was closed


def parsed(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    found = [
        sample.value for family in families.values() for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]  # fmt: skip
    assert len(found) == 1, (name, labels, found)
    return found[0]


async def fire_each(daemon: Daemon) -> None:
    async with daemon.session() as client:
        for tool in ("Bash", "Read", "Crash", "Read"):
            await client.fire_tool(tool)


async def until_faults(daemon: Daemon, text: str | None) -> dict[str, Any]:
    async with daemon.administrator() as admin:
        return await admin.until_status(
            lambda status: (text or "") in str(status["faults"]) and bool(text) == bool(status["faults"])
        )


async def test_decisions_calls_and_workers_are_counted(tmp_path: Path) -> None:
    port = free_port()
    async with running_daemon(tmp_path, files(port=port)) as daemon:
        await until_answered(port)
        await fire_each(daemon)
        _, text = await got(port, "/metrics")

    found, event, hook = parsed(text), "pre_tool_use", "global/guards:judge"
    decisions = "hooklatch_decisions_total"
    assert value(found, decisions, event=event, verdict="deny", cause="policy") == 1
    assert value(found, decisions, event=event, verdict="deny", cause="crash") == 1
    assert value(found, decisions, event=event, verdict="allow", cause="policy") == 2
    assert value(found, "hooklatch_fire_duration_seconds_count", event=event) == 4
    assert value(found, "hooklatch_fire_duration_seconds_bucket", event=event, le="+Inf") == 4
    assert value(found, "hooklatch_hook_duration_seconds_count", hook=hook) == 4
    assert value(found, "hooklatch_hook_failures_total", hook=hook, cause="crash") == 1
    assert value(found, "hooklatch_hooks", state="active") == 1
    assert value(found, "hooklatch_workers", source=f"{tmp_path}/guards.py", state="idle") >= 1
    assert value(found, "hooklatch_ready") == 1
    assert value(found, "hooklatch_zygote_up") == 1
    assert value(found, "hooklatch_record_stage", stage="normal") == 1
    if system is linux:  # prometheus_client reads it of /proc
        assert value(found, "process_open_fds") > 0


async def test_every_name_is_a_good_one_and_every_sum_adds_up(tmp_path: Path) -> None:
    port = free_port()
    async with running_daemon(tmp_path, files(port=port)) as daemon:
        await until_answered(port)
        await fire_each(daemon)
        _, text = await got(port, "/metrics")

    ours = {name: family for name, family in parsed(text).items() if not name.startswith("process_")}
    for name, family in ours.items():
        assert name.startswith("hooklatch_")
        assert family.documentation.endswith(".")
        if family.type == "histogram":
            counts = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
            assert counts == sorted(counts)
    assert len(ours) > 20
    assert "histogram" in {family.type for family in ours.values()}


async def test_the_documentation_names_every_metric_with_its_labels(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    rows = re.findall(r"^\| (`hooklatch_[^|]*) \|([^|]*)\|", page, re.MULTILINE)
    documented = {name: labels.strip() for names, labels in rows for name in re.findall(r"`(\w+)`", names)}
    given = files()
    given["hooks.toml"] += fleet_table()
    async with running_daemon(tmp_path, given) as daemon:
        measured = {
            metric.name + "_total" * (metric.type == "counter"): ", ".join(metric._labelnames)  # type: ignore[attr-defined]
            for metric in measure_daemon(daemon.parts.status)
        }

    assert documented == measured


async def test_hooks_and_sources_of_sessions_make_no_labels(tmp_path: Path) -> None:
    port = free_port()
    async with running_daemon(tmp_path, files(port=port)) as daemon:
        await until_answered(port)
        daemon.write("own.py", GUARD)
        async with daemon.session(cwd=str(tmp_path)) as client:
            own = {"id": "own", "event": "pre_tool_use", "run": "own.py:judge"}
            await client.call("register", hooks=[own])
            await client.fire_tool("Bash")
        _, text = await got(port, "/metrics")

    assert "own" not in text
    assert value(parsed(text), "hooklatch_workers", source="(sessions)", state="idle") >= 1


async def test_probes_tell_liveness_from_readiness(tmp_path: Path) -> None:
    port = free_port()
    async with running_daemon(tmp_path, files(port=port)) as daemon:
        well = [await until_answered(port, path) for path in ("/healthz", "/readyz")]
        daemon.write("hooks.d/broken.toml", "[[hook]]\n")
        async with daemon.administrator() as admin:
            await admin.call("reload")
        red = [await got(port, path) for path in ("/healthz", "/readyz")]
        others = [await got(port, "/"), await got(port, "/metrics", "POST")]

    assert well == [(200, "ok\n"), (200, "ready\n")]
    assert red == [(200, "ok\n"), (503, "red files\n")]
    assert [status for status, _ in others] == [404, 405]


async def test_the_port_is_one_of_the_loopback_alone(tmp_path: Path) -> None:
    port = free_port()
    async with running_daemon(tmp_path, files(port=port)):
        await until_answered(port)
        listening = listeners()

    assert f" 0100007F:{port:04X} 00000000:0000 0A" in listening
    assert f"00000000:{port:04X} 00000000:0000 0A" not in listening


def listeners() -> str:
    return Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()


async def test_a_reload_moves_the_port_and_takes_it_away(tmp_path: Path) -> None:
    first, second = free_port(), free_port()
    async with running_daemon(tmp_path, files(port=first)) as daemon, daemon.administrator() as admin:
        await until_answered(first)
        daemon.write("hooks.toml", files(port=second)["hooks.toml"])
        await admin.call("reload")
        await until_answered(second)
        with pytest.raises(ConnectionRefusedError):
            await got(first, "/metrics")
        daemon.write("hooks.toml", files()["hooks.toml"])
        await admin.call("reload")
        await until_refused(second)


async def test_a_port_in_use_is_a_fault_and_the_daemon_goes_on(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with running_daemon(tmp_path, files(port=port)) as daemon:
            red = await until_faults(daemon, f"no metrics at {port}: Address already in use")
            async with daemon.session() as client:
                decision = await client.fire_tool("Bash")
            daemon.write("hooks.toml", files()["hooks.toml"])
            async with daemon.administrator() as admin:
                await admin.call("reload")
            green = await until_faults(daemon, None)

    assert red["health"] == "red"
    assert decision["verdict"] == "deny"
    assert green["health"] == "green"


@pytest.mark.slow
async def test_a_port_that_becomes_free_is_taken(tmp_path: Path) -> None:
    """Slow: a port is tried again every 2 s."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with running_daemon(tmp_path, files(port=port)) as daemon:
            await until_faults(daemon, "in use")
            taken.close()
            await until_faults(daemon, None)
            status, _ = await got(port, "/readyz")

    assert status == 200


async def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)  # as if it were not installed
    async with running_daemon(tmp_path, files(port=free_port())) as daemon:
        red = await until_faults(daemon, "pip install")

    assert "hooklatch[metrics]" in red["faults"][0]


async def test_the_file_is_whole_readable_by_a_collector_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "hooklatch.prom"
    async with running_daemon(tmp_path, files(file=path)) as daemon:
        await until(path.exists)
        found = parsed(path.read_text())
        mode = stat.S_IMODE(path.stat().st_mode)
        beside = os.listdir(tmp_path)
        assert daemon.folder == tmp_path

    assert value(found, "hooklatch_ready") == 1
    assert mode == 0o644
    assert [name for name in beside if "prom" in name] == ["hooklatch.prom"]
    assert not path.exists()


async def test_a_file_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, files(file=tmp_path / "nowhere" / "m.prom")) as daemon:
        red = await until_faults(daemon, "No such file or directory")

    assert f"{tmp_path}/nowhere/m.prom" in red["faults"][0]

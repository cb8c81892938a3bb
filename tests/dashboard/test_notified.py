"""The link of a notification: it leads to the ask's page of the dashboard that runs beside the daemon.

Slow: the daemon, the dashboard, the agent and the notifier are processes of their own.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch import paths
from support.commands import Place, new_place, payload, serving
from support.dashboards import dashboard, until

pytestmark = pytest.mark.slow

NOTIFY = """
[ask]
wait = 300

[ask.notify]
command = ["/bin/sh", "-c", "cat > {folder}/new; mv {folder}/new {folder}/heard-$$"]

[[source]]
path = "guards.py"
"""
GUARD = """
from hooklatch import ask, hook

@hook("pre_tool_use")
def careful(event):
    return ask("may it?")
"""


@contextmanager
def asking(place: Place, folder: Path, command: str) -> Generator[dict[str, Any]]:
    """Have an agent's command wait, and give what the notifier hears; it is denied at the end."""
    before = set(folder.glob("heard-*"))
    (folder / "payload.json").write_text(payload("Bash", command=command))
    fired = place.begin("fire", "pre_tool_use", "--payload", str(folder / "payload.json"))
    until(lambda: set(folder.glob("heard-*")) > before)
    (new,) = set(folder.glob("heard-*")) - before
    said: dict[str, Any] = json.loads(new.read_text())
    yield said
    place.run("asks", "answer", said["ask"]["id"], "deny", "--reason", "no")
    fired.end()


def test_the_link_leads_to_the_asks_page_while_the_dashboard_runs(tmp_path: Path) -> None:
    files = {"hooks.toml": NOTIFY.format(folder=tmp_path), "guards.py": GUARD}
    with new_place(files) as place, serving(place):
        address = place.runtime / paths.DASHBOARD
        with asking(place, tmp_path, "make one") as said:
            assert said["link"] is None
        with dashboard(place) as visitor:
            until(lambda: address.exists() and address.read_text().endswith("\n"))
            with asking(place, tmp_path, "make two") as said:
                target = said["link"].removeprefix(visitor.origin)
                stranger = visitor.send("GET", target)
                visitor.enter()
                page, other = visitor.send("GET", target), visitor.send("GET", target.replace("digest=", "digest=0"))
            kept, mode = address.read_text(), address.stat().st_mode & 0o777
        assert not address.exists()
        address.write_text(kept)  # as after SIGKILL: no process holds its lock
        with asking(place, tmp_path, "make three") as said:
            assert said["link"] is None

    assert target.startswith(f"{visitor.base}/ask?id=")
    assert (stranger.status, page.status, other.status, mode) == (401, 200, 409, 0o600)
    assert "make two" in page.text
    assert "this link is about another payload" in other.text

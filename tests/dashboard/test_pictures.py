"""The pictures of docs/guides/dashboard.md, as a browser shows the pages: made where `HOOKLATCH_PICTURES` is set.

Else they are left as they are, since each run would make them anew by some points.
"""

from __future__ import annotations

import getpass
import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from hooklatch.core.messages import CallOutcome
from hooklatch.record.writer import RecordWriter
from support.browsers import needs_browser, running_browser
from support.commands import Place, new_place, payload, serving
from support.dashboards import Visitor, dashboard
from support.records import SETTINGS, decision, fact
from support.repository import ROOT

COMMANDS = ["make test", "git status", "ls src", "make test", "git diff", "pytest -q", "git push --force origin main"]
FOLDER = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000  # of one picture
# Names of the machine on which they are made are left out of pictures.
REPLACE = """names => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode())
        for (const [own, shown] of Object.entries(names))
            walk.currentNode.data = walk.currentNode.data.replaceAll(own, shown);
}"""
GUARDS = '''"""Guards of a team that deploys."""

from hooklatch import amend, ask, deny, hook


@hook("pre_tool_use", match="Bash")
def no_force_push(event):
    """Refuse what others cannot get back."""
    if "push --force" in event.tool_input["command"]:
        return deny("force pushes are not allowed here; push to a branch of your own")


@hook("pre_tool_use", match="Bash")
def no_install_scripts(event):
    command = event.tool_input["command"]
    if command.startswith("npm install"):
        return amend(tool_input={**event.tool_input, "command": f"{command} --ignore-scripts"})


@hook("pre_tool_use", match="Deploy")
def deployments(event):
    return ask("a person decides about production")


@hook("post_tool_use", match="Write")
def formatter(event):
    raise FileNotFoundError("ruff is not on the PATH")
'''
FILES = {"hooks.toml": '[ask]\nwait = "5m"\n\n[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


def test_the_pictures_that_the_docs_show_are_there_and_small() -> None:
    shown = set(
        re.findall(
            r"\(\.\./pictures/(dashboard-[\w-]+\.png)\)", (ROOT / "docs" / "guides" / "dashboard.md").read_text()
        )
    )

    assert shown == {path.name for path in FOLDER.glob("dashboard-*.png")}
    for name in shown:
        assert (FOLDER / name).stat().st_size <= MOST_BYTES, name


@pytest.mark.slow
@needs_browser
@pytest.mark.skipif(not os.environ.get("HOOKLATCH_PICTURES"), reason="made only with HOOKLATCH_PICTURES=1")
def test_pictures_are_made() -> None:
    """Slow: a daemon, a dashboard and a browser."""
    with new_place(FILES) as place:
        record_a_week(place.folder / ".local/state/hooklatch/record")
        with serving(place), dashboard(place) as visitor:
            assert place.run("state", "accept").returncode == 0  # a record without a state is not believed
            take_pictures(place, visitor)


def record_a_week(folder: Path) -> None:
    """Record what agents did in the days before: more in the daytime, and now and then something refused."""
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    chance, end = random.Random(1), time.time()
    moments = sorted(end - chance.uniform(600, 7 * 86400) for _ in range(2400))
    now = [moments[0]]
    record = RecordWriter(str(folder), SETTINGS, clock=lambda: now[0])
    for number, moment in enumerate(moments):
        if abs(moment / 3600 % 24 - 14) > chance.uniform(3, 9):
            continue
        now[0] = moment
        command = chance.choice(COMMANDS)
        is_refused = "--force" in command
        names = ("guards:no_force_push", "guards:no_install_scripts")
        outcomes = [
            CallOutcome(layer="global", hook=name, outcome="answered", cause="policy", duration_ms=0.4,
                        verdict="deny" if is_refused and name == names[0] else None)
            for name in names
        ]  # fmt: skip
        refused = {"reason": "force pushes are not allowed here; push to a branch of your own", "hook": names[0]}
        passed = {"verdict": "pass", "cause": None, "reason": None, "layer": None, "hook": None}
        made = decision(number, outcomes=outcomes, **(refused if is_refused else passed))
        agent = chance.choice(["claude-code", "claude-code", "codex", "gemini"])
        payload = {"tool_name": "Bash", "tool_input": {"command": command}}
        record.append_decision(made, fact(payload, host=agent, cwd="/home/ann/shop"))
    record.close()


def take_pictures(place: Place, visitor: Visitor) -> None:
    for _ in range(12):
        place.fire_tool("Bash", command="make test")
    place.run("fire", "post_tool_use", "--payload", "-", stdin=payload("Write", file_path="/srv/shop/cart.py"))
    place.fire_tool("Bash", command="npm install left-pad")
    place.fire_tool("Bash", command="git push --force origin main")
    call = place.folder / "call.json"
    call.write_text(payload("Deploy", service="shop", target="production"))
    waits = place.begin("fire", "pre_tool_use", "--payload", str(call))
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 1000, "height": 760}, color_scheme="light")
        page.goto(visitor.url)
        page.wait_for_url(f"{visitor.origin}{visitor.base}/")
        take_all(page, visitor, place)
    waits.process.kill()


def take_all(page: Any, visitor: Visitor, place: Place) -> None:
    def go_to(path: str) -> None:
        page.goto(f"{visitor.origin}{visitor.base}{path}")
        page.wait_for_selector("body[data-heard]")

    def take(name: str, height: int) -> None:
        page.evaluate(REPLACE, names)
        page.mouse.move(0, 0)
        page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
        page.screenshot(path=FOLDER / f"dashboard-{name}.png", scale="css")

    names = {
        str(ROOT / "workers"): "/home/ann/venv/lib/python3.14/site-packages",
        str(place.config.parent): "/home/ann/.config/hooklatch",
        str(place.folder): "/home/ann/shop",
        f"{getpass.getuser()} in the dashboard": "ann in the dashboard",
    }
    FOLDER.mkdir(exist_ok=True)
    page.wait_for_selector("#asks a.button")
    page.wait_for_selector(".chart canvas")
    take("overview", 1000)
    go_to("/counts?span=7d")
    page.wait_for_selector(".chart canvas")
    take("counts", 900)
    go_to("/hook?name=global/guards:formatter")
    take("hook", 760)
    go_to("/asks")
    page.click("#asks a.button")
    page.fill("#reason", "the release is tested; go ahead")
    take("ask", 760)
    page.set_viewport_size({"width": 400, "height": 760})
    page.emulate_media(color_scheme="dark")
    go_to("/")
    take("narrow", 760)

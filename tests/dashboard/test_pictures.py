"""The pictures of docs/guides/dashboard.md, as a browser shows the pages: made where `HOOKLATCH_PICTURES` is set.

Else they are left as they are, since each run would make them anew by some points.
"""

from __future__ import annotations

import getpass
import os
import re
from typing import Any

import pytest

from support.browsers import needs_browser, running_browser
from support.commands import Place, new_place, payload, serving
from support.dashboards import Visitor, dashboard
from support.repository import ROOT

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
    with new_place(FILES) as place, serving(place), dashboard(place) as visitor:
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
    page.click("#decisions li:nth-child(2) summary")
    take("overview", 900)
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

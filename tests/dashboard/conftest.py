"""A daemon with some decisions behind it, and its dashboard: what the tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.commands import Place, new_place, payload, serving
from support.dashboards import Visitor, dashboard
from support.survivors import nobody_survives

GUARDS = r"""
from hooklatch import amend, ask, deny, hook

@hook("pre_tool_use", match="Bash")
def no_force_push(event):
    command = event.tool_input["command"]
    if "push --force" in command:
        return deny("force pushes are not allowed here", instead="git push <b>gently</b>")
    if "strange" in command:
        markup = '<script>alert("x")</script><img src=x onerror=alert(1)>'
        return deny(markup + "\x1b[31m\u202egnp.exe\u2066\x00" + "w" * 50000)

@hook("pre_tool_use", match="Bash")
def no_scripts(event):
    command = event.tool_input["command"]
    if command.startswith("npm install"):
        return amend(tool_input={**event.tool_input, "command": command.replace("npm", "npm --ignore-scripts", 1)})

@hook("pre_tool_use", match="Deploy")
def deployments(event):
    return ask("a person decides about deployments")

@hook("pre_tool_use", match="Die")
def dies(event):
    import os
    os._exit(1)

@hook("post_tool_use", match="Write")
def formatter(event):
    raise FileNotFoundError("no formatter is installed <b>here</b>")
"""
FILES = {"hooks.toml": '[ask]\nwait = 300\n\n[[source]]\npath = "guards.py"\n', "guards.py": GUARDS}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A daemon that has denied, changed and passed a call, and seen a hook fail."""
    with nobody_survives() as word, new_place(FILES) as place:
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        with serving(place):
            place.fire_tool("Bash", command="npm install left-pad")
            place.run("fire", "post_tool_use", "--payload", "-", stdin=payload("Write", file_path="/srv/a.py"))
            place.fire_tool("Bash", command="git push --force")
            place.fire_tool("Bash", command="strange <i>things</i> \u202e")
            yield place


@pytest.fixture(scope="module")
def visitor(place: Place) -> Iterator[Visitor]:
    """A browser that has entered."""
    with dashboard(place) as visitor:
        assert visitor.enter().status == 200
        yield visitor

"""The hook files that the chaos rewrites: each guard says in its answer's context which version of it answered.

Knows texts; writes no file.
"""

from __future__ import annotations

__all__ = ["BROKEN", "SILENT", "SWITCHED", "config", "halves", "policy", "project"]

POLICY = '''"""What these guards say follows from the payload alone, and from the version of this file."""

VERSION = (
    {version}
)
import os

from hooklatch import allow, amend, ask, claim, context, deny, hook


def word(event):
    return str(event.tool_input["command"]).split()[0]


@hook("pre_tool_use", id="policy", timeout=1.0, priority=500)
def policy(event):
    said = context(policy=VERSION)
    match word(event):
        case "forbid":
            return said.deny(f"policy {{VERSION}}")
        case "ask":
            return said.ask("is it?")
        case "allow":
            return said.allow()
        case "amend" if not event.reinvoked:
            return said.amend(tool_input={{**event.tool_input, "command": event.tool_input["command"] + " amended"}})
        case "boom":
            os._exit(7)
        case "raise":
            raise RuntimeError("a bug of the guard")
    return said


@hook("user_prompt_submit", id="prompt", timeout=1.5)
def prompt(event):
    said = context(policy=VERSION)
    return said.deny("not this prompt") if event.prompt.startswith("forbid") else said


@hook("post_tool_use", id="listen", timeout=1.5)
def listen(event):
    return context(policy=VERSION)


@hook("post_model", id="rewrite", timeout=1.5)
def rewrite(event):
    return amend(response="rewritten").context(policy=VERSION)


@hook("message_claim", id="mine", timeout=1.5)
def mine(event):
    return claim({{"version": VERSION}}).context(policy=VERSION)
'''
CUT = "VERSION = (\n"  # what ends here is no Python
BROKEN = "from hooklatch import deny, hook\n\nthis is not Python (\n"
SWITCHED = """
from hooklatch import hook

@hook("pre_tool_use", id="switched", timeout=1.5, priority=900)
def switched(event):
    return None
"""
SILENT = """
def silent(event):
    return None
"""
PROJECT = """
VERSION = {version}
from hooklatch import context, deny, hook

@hook("pre_tool_use", id="project", timeout=1.5)
def project(event):
    said = context(project=VERSION)
    return said.deny("not in this project") if event.tool_input["command"].startswith("projectbad") else said
"""
CONFIG = """
[[hook]]
id = "shell"
event = "pre_tool_use"
match = "Bash"
output = "json"
timeout = 2.0
command = '''payload=$(cat) || exit 1  # cat may be killed too, and what it did not read is not harmless
case "$payload" in
*shellbad*) echo '{{"verdict": "deny", "reason": "not in a shell", "context": {{"shell": {version}}}}}';;
*) echo '{{"context": {{"shell": {version}}}}}';;
esac'''
"""


def policy(version: int) -> str:
    return POLICY.format(version=version)


def project(version: int) -> str:
    # Of one length whatever the version: a change must be seen without the help of the size.
    return PROJECT.format(version=f"{version:<8}")


def config(version: int) -> str:
    return CONFIG.format(version=version)


def halves(text: str) -> tuple[str, str]:
    """Cut a text where its first part alone is an error, so that nobody can take it for a version."""
    head, cut, tail = text.partition(CUT)
    return head + cut, tail

"""What a fleet's operator pushes first: no force push from any machine."""

from hooklatch.guards import commands
from hooklatch_worker import deny, hook


@hook("pre_tool_use", match="shell")
def no_force_push(event):
    for command in commands(event.payload["tool_input"]["command"]):
        if command.program == "git" and "push" in command.text and command.has_option("--force", "-f"):
            return deny("force pushes rewrite what others have: use --force-with-lease")
    return None

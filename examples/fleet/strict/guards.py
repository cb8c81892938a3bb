"""What the operator pushes next: no push at all from a machine, too strict as it turns out."""

from hooklatch.guards import commands
from hooklatch_worker import deny, hook


@hook("pre_tool_use", match="shell")
def no_push(event):
    for command in commands(event.payload["tool_input"]["command"]):
        if command.program == "git" and "push" in [word.text for word in command.arguments]:
            return deny("only the build server pushes")
    return None

"""What the operator pushes next: no push at all from a machine, too strict as it turns out."""

from hooklatch_worker import deny, hook


@hook("pre_tool_use", match="Bash")
def no_push(event):
    if event.payload["tool_input"]["command"].startswith("git push"):
        return deny("only the build server pushes")
    return None

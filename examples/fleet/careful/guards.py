"""What a fleet's operator pushes first: no force push from any machine."""

from hooklatch_worker import deny, hook


@hook("pre_tool_use", match="Bash")
def no_force_push(event):
    command = event.payload["tool_input"]["command"]
    if "push" in command and "--force" in command.split():
        return deny("force pushes rewrite what others have: use --force-with-lease")
    return None

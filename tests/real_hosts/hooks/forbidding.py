"""A guard that refuses what has FORBIDDEN in it, and nothing else."""

from hooklatch import deny, hook


@hook("pre_tool_use")
def no_forbidden(event):
    return deny("not-that") if "FORBIDDEN" in str(event.tool_input) else None

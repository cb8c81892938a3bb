"""A plugin: every function of this module that is marked with @hook is a hook, named `example-plugin.<function>`."""

from hooklatch import deny, hook, warn


@hook("pre_tool_use", match="Bash", description="no secrets on a command line")
def no_tokens(event):
    if "ghp_" in str(event.tool_input.get("command", "")):
        return deny("a token on a command line ends up in the shell's history; pass it in a file")
    return None


@hook("session_start", description="says that it is there")
def greet(event):
    return warn("example-plugin watches this session")

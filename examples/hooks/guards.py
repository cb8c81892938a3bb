"""Guards: each can refuse what the agent is about to do.  One that crashes refuses too."""

import re

from hooklatch import PreToolUse, UserPromptSubmit, ask, deny, hook
from hooklatch.guards import commands

SECRET = re.compile(r"sk-[A-Za-z0-9]{20,}")


@hook("pre_tool_use", match="Bash")
def no_recursive_removal(event: PreToolUse):
    for command in commands(event.command):  # also /bin/rm, and those in $(…) and bash -c "…"
        if command.program is None:
            return ask("which program this runs is decided only when it runs; go on?")
        if command.program == "rm" and command.has_option("-r", "-R", "--recursive"):
            return deny("recursive removals are not allowed here; name the files")


@hook("pre_tool_use", match="Bash")
def ask_before_pipes(event: PreToolUse):
    if any(command.fed_by for command in commands(event.command)):
        return ask("a pipe can carry anything; go on?")


@hook("pre_tool_use", match="Bash")
def a_guard_with_a_bug(event: PreToolUse):
    if "exit 3" in event.command:
        raise RuntimeError("this guard has a bug, and so it refuses")


@hook("user_prompt_submit")
def no_keys_in_prompts(event: UserPromptSubmit):
    if SECRET.search(event.prompt):
        return deny("this prompt holds what looks like a secret key")

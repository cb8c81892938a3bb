"""Guards: each can refuse what the agent is about to do.  One that crashes refuses too."""

import re
import shlex

from hooklatch import ask, deny, hook
from hooklatch_worker.author.events import PreToolUse, UserPromptSubmit

SECRET = re.compile(r"sk-[A-Za-z0-9]{20,}")


@hook("pre_tool_use", match="Bash")
def no_recursive_removal(event: PreToolUse):
    words = shlex.split(event.tool_input["command"])
    if "rm" in words and any(word.startswith("-") and "r" in word for word in words):
        return deny("recursive removals are not allowed here; name the files")


@hook("pre_tool_use", match="Bash")
def ask_before_pipes(event: PreToolUse):
    if "|" in event.tool_input["command"]:
        return ask("a pipe can carry anything; go on?")


@hook("pre_tool_use", match="Bash")
def a_guard_with_a_bug(event: PreToolUse):
    if "exit 3" in event.tool_input["command"]:
        raise RuntimeError("this guard has a bug, and so it refuses")


@hook("user_prompt_submit")
def no_keys_in_prompts(event: UserPromptSubmit):
    if SECRET.search(event.prompt):
        return deny("this prompt holds what looks like a secret key")

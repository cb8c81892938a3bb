"""A budget: how many commands a session may run, and how much all of them may spend in a day.

A counter in this module would exist once per worker, so a limit of 50 would let 200 through. `event.state` is shared by
all of them, and each increment is atomic.
"""

from hooklatch import ModelResponse, PreToolUse, deny, hook

COMMANDS = 50  # of one session
TOKENS = 2_000_000  # of all sessions, for a day from the first count on
DAY = 24 * 3600.0


@hook("pre_tool_use", match="Bash")
def ceiling(event: PreToolUse):
    # `once`: if a later guard rewrites the command, this one is called again for the same decision.
    commands = event.state.session.increment("commands", once=True)
    if commands > COMMANDS:
        return deny(f"{COMMANDS} commands a session are enough; start another one")
    if event.state.get("tokens", 0) > TOKENS:
        return deny("today's tokens are spent")


@hook("model_response")
def count_tokens(event: ModelResponse):
    event.state.increment("tokens", (event.usage or {}).get("output_tokens", 0), ttl=DAY)

"""Notifications: they can add text, and never stop anything.  One that crashes is skipped."""

from hooklatch import PostToolUse, SessionStart, Stop, append, hook, inject


@hook("session_start")
def house_rules(event: SessionStart):
    return inject({"role": "system", "content": "House rule: run the tests before you say that you are done."})


@hook("post_tool_use", match=["Edit", "Write"])
def remind_of_the_formatter(event: PostToolUse):
    return append("Remember to run the formatter.")


@hook("stop")
def a_notification_with_a_bug(event: Stop):
    print("this line is kept with the outcome, and never reaches the agent")
    raise RuntimeError("a notification's crash stops nothing")

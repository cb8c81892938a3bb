"""The refusal for each host when there is no decision, as data for both forms of the forwarder: for C in a header.

A gate is refused by exit code 2 with a text on standard error, which every host that was measured honours.  `FORMS` are
the events where a host does not, and `SILENCES` the hosts that need a document where others need nothing.  This module
imports little: an agent waits for it.
"""

from hooklatch.core.refusal_texts import (
    DOCTOR,
    NOT_RUN,
    NOTICE,
    START,
    STATUS,
    TOLD,
    WITHHELD,
    frame_for_model,
    frame_for_person,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "BLOCK", "CHUNK", "DOCUMENTED", "FORMS", "HANDED", "HANDED_PREFIXES", "HANDOVER", "MAX_FRAME", "MODEL", "NOTICES",
    "PERSON", "PROMPTS", "REFUSED", "RESULT", "RESULTS", "SILENCE", "SILENCES", "UNREACHED",
    "VARIABLES", "WORDS", "make_failure_output", "make_ascii_detail", "make_reason", "frame_reason",
    "quote_json_text",
]  # fmt: skip

BLOCK: "Final" = 2  # the exit code that stops an agent; after any other it continues
MAX_FRAME: "Final" = 9 * 2**20  # bytes; the protocol's limit for a line
CHUNK: "Final" = 2**16  # the capacity of a pipe
SILENCE: "Final" = 5  # seconds without progress before the daemon is pinged, and the time limit of the ping
HANDOVER: "Final" = 750  # milliseconds to hand over an event whose decision has no effect

# The variables in which a host names its project, for hooklatch.hosts; they are passed on to the daemon.
VARIABLES: "Final" = (
    "CLAUDE_PROJECT_DIR",
    "CODEX_PROJECT_DIR",
    "COPILOT_PROJECT_DIR",
    "CURSOR_PROJECT_DIR",
    "GEMINI_PROJECT_DIR",
    "QWEN_PROJECT_DIR",
    "GROK_WORKSPACE_ROOT",
    "LETTA_WORKING_DIR",
    "AUGMENT_PROJECT_DIR",
    "FACTORY_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ATTENDED",
)
# The variables that starting.py gets: names, and beginnings of names.  No PYTHON* and no LD_*: they could run code.
HANDED: "Final" = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV")
HANDED_PREFIXES: "Final" = ("LC_", "XDG_", "HOOKLATCH_")

# By host and event: what is on standard output, with exit code 0, around the reason as a reader is told it.
MODEL, PERSON, RESULT = "\x01", "\x02", "\x03"  # RESULT: to the model, in place of what a tool gave
_PERMISSION = (
    '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"\x01"}'
)
_DIALOG = (
    '{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"\x01"}}}\n'
)
_PROMPT = '{"decision":"block","reason":"\x02"}\n'
FORMS: "Final" = {
    # After exit code 2 it shows, and tells the model, the command line of the entry before each reason.
    ("claude-code", "PreToolUse"): _PERMISSION + ',"systemMessage":"\x02"}\n',
    ("claude-code", "UserPromptSubmit"): _PROMPT,
    ("claude-code", "PermissionRequest"): _DIALOG,  # it ignores exit code 2
    # Where its result has no shape that is known, Claude Code reads no other: then the run ends before the model reads.
    ("claude-code", "PostToolUse"): '{"continue":false,"stopReason":"\x03"}\n',
    ("codex", "PermissionRequest"): _DIALOG,
    ("codex", "PostToolUse"): '{"decision":"block","reason":"\x03"}\n',
    ("codex", "PreCompact"): '{"continue":false,"stopReason":"\x01"}\n',
    # It shows nothing of exit code 2 but that a hook has failed.
    ("gemini", "BeforeTool"): '{"decision":"deny","reason":"\x01","systemMessage":"\x02"}\n',
    ("gemini", "BeforeAgent"): '{"decision":"deny","reason":"\x02"}\n',
    ("gemini", "AfterTool"): '{"decision":"deny","reason":"\x03"}\n',
    ("cursor", "postToolUse"): '{"updated_mcp_tool_output":{"content":[{"type":"text","text":"\x03"}]}}\n',
    ("opencode", "tool.execute.before"): '{"verdict":"deny","reason":"\x01","person":"\x02"}\n',
    ("opencode", "tool.execute.after"): '{"verdict":"deny","reason":"\x03"}\n',
    ("qwen", "PermissionRequest"): _DIALOG,
    ("cline", "PreToolUse"): '{"cancel":true,"errorMessage":"\x01"}\n',  # it reads no exit code
    # It blocks after exit code 2 too, but shows no reason.
    ("copilot", "preToolUse"): '{"permissionDecision":"deny","permissionDecisionReason":"\x01"}\n',
}
# By host and event: what a session that begins without a daemon hears.  Three show a person nothing.
_LINE, _FOR_MODEL = f'{NOTICE}Run: {START}"}}', f'{NOTICE}Tell the user to run: {START}"}}'
_SHOWN = f'{{"systemMessage":"{_LINE}\n'
NOTICES: "Final" = {
    ("claude-code", "SessionStart"): _SHOWN,
    ("codex", "SessionStart"): _SHOWN,
    ("gemini", "SessionStart"): _SHOWN,
    ("qwen", "SessionStart"): (
        f'{{"hookSpecificOutput":{{"hookEventName":"SessionStart","additionalContext":"{_FOR_MODEL}}}\n'
    ),
    ("copilot", "sessionStart"): f'{{"additionalContext":"{_FOR_MODEL}\n',
    ("cursor", "sessionStart"): f'{{"additional_context":"{_FOR_MODEL}\n',
    ("opencode", "session.created"): f'{{"person":"{_LINE}\n',
}
UNREACHED: "Final" = ("no_daemon", "not_started", "silent")  # the causes of a notice
# By host and event: the text around another result, which is in the shape of the one in the document, with the reason.
RESULTS: "Final" = {
    ("claude-code", "PostToolUse"): (
        '{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":', "}}\n",
    ),
}  # fmt: skip
# The output for these hosts where others get none: they parse it in any case.
SILENCES: "Final" = {"cursor": "{}\n", "gemini": "{}\n", "opencode": "{}\n"}

# The user's own agents, which get the decision beside exit code 2.  With other hosts a document could undo the refusal.
DOCUMENTED: "Final" = ("generic",)

# The prompts of all hosts: a person reads in place of a model why one is refused.
PROMPTS: "Final" = (
    "UserPromptSubmit", "UserPromptExpansion", "BeforeAgent", "beforeSubmitPrompt", "user_prompt_submit",
)  # fmt: skip
# By cause: why there is no decision, and the command by which a person finds out more; paths are for that command.
_HERE = "{its} entry in this agent "
WORDS: "Final" = {
    "usage": (_HERE + "has a wrong command line, so hooklatch has to be installed again", DOCTOR),
    "terminal": (_HERE + "was started at a terminal, and not by the agent", DOCTOR),
    "unread": (_HERE + "cannot read what the agent sends", DOCTOR),
    "huge": ("the event is too large for {it}", STATUS),
    "encoding": ("the event is not UTF-8", STATUS),
    "variable": ("a variable of the environment is not UTF-8", STATUS),
    "no_daemon": (TOLD["no_daemon"], START),
    "not_started": ("{it} could not be started", DOCTOR),
    "hung_up": ("{its} daemon ended before it had answered", STATUS),
    "silent": ("{its} daemon is silent, even to a ping", DOCTOR),
    "late": ("{it} gave no answer in time", STATUS),
    "ended": ("the agent ended this hook before {it} had answered", STATUS),
    "error": ("{its} daemon answered with an error", DOCTOR),
    "rubbish": ("the answer of {its} daemon cannot be read", DOCTOR),
    "long": ("the answer of {its} daemon is too long", DOCTOR),
    "output": ("the answer cannot be written", DOCTOR),
    "bug": (_HERE + "failed", DOCTOR),
}
REFUSED: "Final" = f"{NOT_RUN}hooklatch refused it\n"  # where the daemon gives no text: some hosts go on without one

_CONTROLS = bytes(range(32))


def make_failure_output(
    host: str, event: str, kind: str, cause: str, detail: bytes = b""
) -> "tuple[int, bytes, bytes]":
    """Return exit code, standard output and standard error for an event without a decision.

    `cause` is a key of `WORDS`, or "" where no decision is waited for.  Only a gate is refused; an unknown kind
    counts as a gate.
    """
    if kind in ("context", "notify"):
        notice = NOTICES.get((host, event)) if cause in UNREACHED else None
        return 0, (notice or SILENCES.get(host, "")).encode(), b""
    form = FORMS.get((host, event))
    if form is None:
        return BLOCK, b"", make_reason(cause, detail, PERSON if event in PROMPTS else MODEL, event) + b"\n"
    document = form.encode()
    for reader in (MODEL, PERSON, RESULT):
        document = document.replace(reader.encode(), quote_json_text(make_reason(cause, detail, reader, event)))
    return 0, document, b""


def make_reason(cause: str, detail: bytes, reader: str, event: str = "") -> bytes:
    """Return why there is no decision, for MODEL, PERSON or RESULT."""
    before, after = frame_reason(cause, reader, event)
    return before.encode() + (b": " + make_ascii_detail(detail) if detail else b"") + after.encode()


def frame_reason(cause: str, reader: str, event: str = "") -> "tuple[str, str]":
    """Return the text before and after the detail."""
    what, command = WORDS[cause]
    if reader == PERSON:
        return frame_for_person(what, command, "user_prompt_submit" if event in PROMPTS else "")
    before, after = frame_for_model(what, command)
    return (WITHHELD + before.removeprefix(NOT_RUN) if reader == RESULT else before), after


def make_ascii_detail(text: bytes) -> bytes:
    """Return a detail of bounded length as printable ASCII."""
    return bytes([byte if 32 <= byte < 127 else 63 for byte in text[:1000]])


def quote_json_text(text: bytes) -> bytes:
    """Return UTF-8 text as the inside of a JSON string."""
    text = text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    text = text.replace(b"\n", b"\\n").replace(b"\r", b"\\r").replace(b"\t", b"\\t")
    if len(text.translate(None, _CONTROLS)) == len(text):
        return text
    return b"".join([b"\\u%04x" % byte if byte < 32 else bytes((byte,)) for byte in text])

"""The refusal for each host when there is no decision, as data for both forms of the forwarder: for C in a header.

A gate is refused by exit code 2 with a text on standard error, which every host that was measured honours.  `FORMS` are
the events where a host does not, and `SILENCES` the hosts that need a document where others need nothing.  This module
imports nothing: an agent waits for it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "BEFORE", "BLOCK", "CHUNK", "DOCUMENTED", "FORMS", "HANDED", "HANDED_PREFIXES", "MAX_FRAME", "NOTICE",
    "PATH_LIMIT", "REFUSED", "RESULTS", "SILENCE", "SILENCES", "VARIABLES", "WITHHELD", "WORDS",
    "make_failure_output", "make_ascii_detail", "make_reason", "quote_json_text",
]  # fmt: skip

BLOCK: "Final" = 2  # the exit code that stops an agent; after any other it continues
MAX_FRAME: "Final" = 9 * 2**20  # bytes; the protocol's limit for a line
CHUNK: "Final" = 2**16  # the capacity of a pipe
PATH_LIMIT: "Final" = 107  # bytes of a Unix socket's path (unix(7))
SILENCE: "Final" = 5  # seconds without progress before the daemon is pinged, and the time limit of the ping
NOTICE: "Final" = 750  # milliseconds to hand over an event whose decision has no effect

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

_DIALOG: "Final" = (
    '{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"',
    '"}}}\n',
)
WITHHELD: "Final" = "withheld by hooklatch: "
# By host and event: the text on standard output before and after the reason, with exit code 0.
FORMS: "Final" = {
    ("claude-code", "PermissionRequest"): _DIALOG,  # it ignores exit code 2
    ("codex", "PermissionRequest"): _DIALOG,
    # Where its result has no shape that is known, Claude Code reads no other: then the run ends before the model reads.
    ("claude-code", "PostToolUse"): ('{"continue":false,"stopReason":"' + WITHHELD, '"}\n'),
    ("codex", "PostToolUse"): ('{"decision":"block","reason":"' + WITHHELD, '"}\n'),
    ("gemini", "AfterTool"): ('{"decision":"deny","reason":"' + WITHHELD, '"}\n'),
    ("cursor", "postToolUse"): (
        '{"updated_mcp_tool_output":{"content":[{"type":"text","text":"' + WITHHELD,
        '"}]}}\n',
    ),
    ("codex", "PreCompact"): ('{"continue":false,"stopReason":"', '"}\n'),
    ("qwen", "PermissionRequest"): _DIALOG,
    ("cline", "PreToolUse"): ('{"cancel":true,"errorMessage":"', '"}\n'),  # it reads no exit code
    # It blocks after exit code 2 too, but shows no reason.
    ("copilot", "preToolUse"): ('{"permissionDecision":"deny","permissionDecisionReason":"', '"}\n'),
}
# By host and event: the text around another result, which is in the shape of the one in the document, with the reason.
RESULTS: "Final" = {
    ("claude-code", "PostToolUse"): (
        '{"hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":', "}}\n",
    ),
}  # fmt: skip
# The output for these hosts where others get none: they parse it in any case.
SILENCES: "Final" = {"cursor": "{}\n", "gemini": "{}\n"}

# The user's own agents, which get the decision beside exit code 2.  With other hosts a document could undo the refusal.
DOCUMENTED: "Final" = ("generic",)

# The reasons why there is no decision, by cause.  A detail in brackets follows.
WORDS: "Final" = {
    "usage": "the command line of this hook is wrong; install hooklatch for this agent again",
    "terminal": "standard input is a terminal; an agent starts this command",
    "unread": "standard input cannot be read",
    "huge": "the event is too large for one line of the protocol",
    "encoding": "the event is not UTF-8",
    "variable": "a variable of the environment is not UTF-8",
    "no_daemon": "no hooklatch daemon listens; start it with: hooklatch serve --detach",
    "not_started": "the hooklatch daemon could not be started; see: hooklatch doctor",
    "hung_up": "the hooklatch daemon hung up before it had answered",
    "silent": "the hooklatch daemon is silent, even to a ping; see: hooklatch doctor",
    "late": "there was no answer in time",
    "ended": "the agent ended this hook before there was an answer",
    "error": "the hooklatch daemon answered with an error",
    "rubbish": "the hooklatch daemon's answer cannot be read",
    "long": "the hooklatch daemon's answer is too long",
    "output": "the answer cannot be written",
    "bug": "the forwarder itself failed",
}
BEFORE: "Final" = "hooklatch: refused: "
REFUSED: "Final" = "hooklatch: refused\n"  # where the daemon refuses without a text: some hosts go on if there is none

_CONTROLS = bytes(range(32))


def make_failure_output(
    host: str, event: str, kind: str, cause: str, detail: bytes = b""
) -> "tuple[int, bytes, bytes]":
    """Return exit code, standard output and standard error for an event without a decision.

    `cause` is a key of `WORDS`.  Only a gate is refused; an unknown kind counts as a gate.
    """
    if kind in ("context", "notify"):
        return 0, SILENCES.get(host, "").encode(), b""
    text = make_reason(cause, detail)
    form = FORMS.get((host, event))
    if form is None:
        return BLOCK, b"", text + b"\n"
    return 0, form[0].encode() + quote_json_text(text) + form[1].encode(), b""


def make_reason(cause: str, detail: bytes) -> bytes:
    """Return why there is no decision."""
    return BEFORE.encode() + WORDS[cause].encode() + (b" (" + make_ascii_detail(detail) + b")" if detail else b"")


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

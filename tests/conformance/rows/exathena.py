"""What ExAthena's hooks state about themselves, case by case."""

from conformance.table import Row, span

__all__ = ["IDS", "ROWS"]

IDS = span("XA", 1, 53)

FIRED = "which of them a run ends with is the host's to say: hooklatch fires what it is told"
REFUSED = "the daemon fires it itself after a refusal; denial.code is the refusal's cause, policy"

ROWS = (
    Row("XA-01", "a matcher write|edit fires on write and not on read"),
    Row("XA-02", "after a deny no further hook runs"),
    Row("XA-03", "on PostToolUse a deny is ignored and a halt is the answer"),
    Row("XA-04", "a flat list of functions fires on Stop"),
    Row(
        "XA-05",
        "a crash in a group without a matcher halts the run",
        "differs",
        "a guard that crashes denies its call, and the run goes on",
    ),
    Row("XA-06", "an augment is the answer"),
    Row("XA-07", "two augments are joined by a newline"),
    Row("XA-08", "an empty augment is none"),
    Row("XA-09", "a halt beats an augment before it"),
    Row("XA-10", "an augment with the matcher ^(Edit|Write)$ is for Edit and not for Read"),
    Row("XA-11", "all events of the catalogue can be fired"),
    Row("XA-12", "a clean run ends with Stop and SessionEnd, not with StopFailure", "differs", FIRED),
    Row("XA-13", "a run that is cut short ends with StopFailure, not with Stop", "differs", FIRED),
    Row("XA-14", "a transformed prompt is the one that the model sees"),
    Row("XA-15", "a message that UserPromptSubmit injects is in the request"),
    Row("XA-16", "a message that ChatParams injects is in the request"),
    Row("XA-17", "a refused tool fires PermissionDenied with its name and a typed denial", "differs", REFUSED),
    Row("XA-18", "a failed tool fires PostToolUseFailure with its name"),
    Row("XA-19", "PreIteration is told the iterations 0, 1, 2, none of them unproductive"),
    Row("XA-20", "a message that PreIteration injects is in the result"),
    Row("XA-21", "a halt at iteration 1 ends the run with its reason"),
    Row("XA-22", "an ok on PreIteration lets the run go on to its stop"),
    Row("XA-23", "a hook that is told of unproductive iterations can halt a stalled run"),
    Row("XA-24", "the model sees the tool's output and the augment"),
    Row("XA-25", "an ok leaves the tool's output as it is"),
    Row("XA-26", "PostToolUse is told arguments, cwd and tool_name"),
    Row("XA-27", "ToolDenied is told the denial's code"),
    Row("XA-28", "the model is told of a denial in a readable text"),
    Row(
        "XA-29",
        "a typed denial fires PermissionDenied and ToolDenied",
        "differs",
        "both are permission_denied: one fire reaches the hooks of both, so a host fires one of them",
    ),
    Row("XA-30", "a parent's deny on write holds for its subagent: no file is written"),
    Row("XA-31", "a deny on spawn_agent starts no subagent"),
    Row(
        "XA-32",
        "a run without a session id gets one of at least 20 bytes, and no parent",
        "differs",
        "an id has 18 characters, 8 random bytes in hexadecimal; a token of 32 bytes guards it",
    ),
    Row("XA-33", "a run with a session id keeps it"),
    Row("XA-34", "two messages of a session are told one id at SessionStart"),
    Row("XA-35", "an explicit id of a session is kept"),
    Row(
        "XA-36",
        "an id that one call states in place of the session's is ignored",
        "differs",
        "hooks are told what the host states; state, turns and the record stay the session's, and the record has both",
    ),
    Row("XA-37", "SubagentStart is told the agent's name and its isolation"),
    Row("XA-38", "a refused MCP tool is an error for the model, and PermissionDenied is fired"),
    Row("XA-39", "bare functions on PreToolUse and PostToolUse are told an MCP tool's whole name"),
    Row(
        "XA-40",
        "a refused call is shown in the stream of events before its result",
        "not applicable",
        "the stream is what ExAthena's loop shows of itself; a decision has no place in it",
    ),
    Row("XA-41", "implicit diagnostics that are disabled say nothing"),
    Row("XA-42", "without a path in the arguments they say nothing"),
    Row("XA-43", "without arguments they say nothing"),
    Row("XA-44", "about an unknown extension they say nothing"),
    Row("XA-45", "without a language server they say nothing"),
    Row("XA-46", "an error is an augment with the path relative to the working directory"),
    Row("XA-47", "severities that are not asked for are left out"),
    Row("XA-48", "what does not come in time is nothing, at the deadline"),
    Row("XA-49", "the stop of a check is told with its count and whether there were errors"),
    Row("XA-50", "a path below the working directory is resolved"),
    Row("XA-51", "disabled diagnostics leave the hooks as they are"),
    Row("XA-52", "enabled diagnostics come before the user's hooks"),
    Row("XA-53", "enabled diagnostics are there without any hook of the user's"),
)

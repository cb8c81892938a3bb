"""What Reasonix states about its hooks: RX, its TypeScript line; RG, the line in Go that followed."""

from conformance.table import Row

__all__ = ["ROWS"]

CLOSED = "hooklatch fails closed: a guard that cannot answer has not allowed anything"
NO_NAMES = "hooklatch keeps no table of another system's tools; names and arguments are those that the host sends"

ROWS = (
    Row("RX-01", "no settings anywhere: no hooks"),
    Row("RX-02", "project hooks fire before global ones, each in its file's order, and each says its scope"),
    Row(
        "RX-03", "entries without a command, with an empty one or with a number are dropped, the good one stays",
        "differs",
        "the good one stays; the others stand inactive, so a gate of theirs denies until they are fixed",
    ),
    Row(
        "RX-04", "malformed settings mean no hooks", "differs",
        "a file that cannot be read may have held guards: gates deny with file and line, and the daemon stays usable",
    ),
    Row("RX-05", "without a project root there are no project hooks"),
    Row(
        "RX-06", "settings are DIR/.reasonix/settings.json, absolute", "differs",
        "hooklatch has files of its own and reads Reasonix's only when told to: hooklatch import FILE",
    ),
    Row("RX-07", 'a matcher that is absent or "*" fires on every tool'),
    Row("RX-08", "a matcher has to match the whole name"),
    Row(
        "RX-09", "a malformed matcher never fires", "differs",
        "a typo would switch a guard off: over the socket it is refused, in a file the gate denies until it is fixed",
    ),
    Row("RX-10", "a matcher on an event about no tool is ignored"),
    Row("RX-11", "exit 0 passes"),
    Row("RX-12", "exit 2 blocks on a gate"),
    Row("RX-13", "exit 2 warns elsewhere"),
    Row("RX-14", "other exit codes warn"),
    Row("RX-15", "a time-out blocks on a gate and warns elsewhere"),
    Row("RX-16", "a command that cannot start is an error, which blocks nothing", "differs", CLOSED),
    Row("RX-17", "only hooks of the event whose matcher matches are started"),
    Row("RX-18", "the first block ends the chain"),
    Row("RX-19", "a warning does not end the chain"),
    Row("RX-20", "standard input is one JSON object and a newline"),
    Row("RX-21", "a hook runs in the payload's folder, or in its own cwd"),
    Row("RX-22", "5 s on PreToolUse, 30 s on Stop"),
    Row("RX-23", "a hook's own timeout, in milliseconds, replaces the default"),
    Row("RX-24", "a pass has no text for people"),
    Row("RX-25", "a warning's text names scope, event, command, outcome and standard error"),
    Row("RX-26", "a long command is cut to 60 characters and an ellipsis"),
    Row("RX-27", "the text says that output was cut at 256 KB"),
    Row("RX-28", "an outcome whose output was cut says so"),
    Row("RX-29", "an outcome whose output is whole does not mention it"),
    Row("RX-30", "a loop has no hooks unless given some"),
    Row("RX-31", "hooks given when the loop is made are its hooks"),
    Row("RX-32", "hooks exchanged while it runs are used from then on"),
    Row(
        "RX-33", "hooks run in the process's own folder by default", "differs",
        "the daemon is another process: without a cwd from the session it is /, never a folder nobody named",
    ),
    Row("RX-34", "hooks run in the folder that the session names"),
    Row("RX-35", "a turn without tools starts no PreToolUse hook, and warns of nothing"),
    Row(
        "RG-01", "project and global hooks load, and nobody asks whether the project is trusted", "differs",
        "a repository that was only cloned must not run commands: project hooks need hooklatch trust",
    ),
    Row("RG-02", "GB18030 and a byte order mark are read"),
    Row(
        "RG-03", "a malformed global file means no hooks", "differs",
        "gates deny with cause load until it is fixed; other events and sound files go on",
    ),
    Row(
        "RG-04", "plugin hooks fire before global ones; plugin and workspace stand in their environment", "differs",
        "the order is the same; a plugin is an installed package, and a command's env table holds what it needs",
    ),
    Row(
        "RG-05", "a plugin in Claude Code's form becomes hooks: seconds, Claude payloads, a context file", "differs",
        "import reads .claude/settings.json; hooks run in the session's folder, and CLAUDE.md is no hook",
    ),
    Row(
        "RG-06", "args: [] is the exec form; shell: bash is a line for that shell", "differs",
        "the same two forms, but a relative program is looked for in the session's folder, not a plugin's",
    ),
    Row(
        "RG-07", "six spellings of a plugin's root are expanded, once", "differs",
        "nothing is expanded but by the shell: env sets the variable, and argv is delivered literally",
    ),
    Row(
        "RG-08", "REASONIX_HOME stands alone, also where it is empty", "differs",
        "the same rule under another name: HOOKLATCH_CONFIG or --config",
    ),
    Row("RG-09", "whether a project has hooks can be asked"),
    Row(
        "RG-10", "the table of matchers; a malformed one matches nothing", "differs",
        "the same table but for the malformed one, which is refused (RX-09)",
    ),
    Row("RG-11", "Claude matchers match the tools' Claude names", "differs", NO_NAMES),
    Row("RG-12", "tool input is translated to Claude Code's keys", "differs", NO_NAMES),
    Row("RG-13", "relative paths become absolute for Claude hooks", "differs", NO_NAMES),
    Row(
        "RG-14", "the table of exit codes; a native PermissionRequest only warns", "differs",
        f"PermissionRequest is a gate here and blocks; so does what cannot start. {CLOSED}",
    ),
    Row(
        "RG-15", "JSON denies: permissionDecision, behavior, decision; other output is nothing", "differs",
        "the same answers deny; on a gate, output that is no answer denies too (cause protocol)",
    ),
    Row(
        "RG-16", "JSON allows at PermissionRequest alone", "differs",
        "an allow before a tool is kept in the decision as well; it refuses nothing and changes nothing in Reasonix",
    ),
    Row("RG-17", "SessionStart takes JSON context or plain text, and warns of anything else"),
    Row("RG-18", "of two that block only the first runs"),
    Row("RG-19", "a JSON deny counts in Claude form, and means nothing from a native hook"),
    Row(
        "RG-20", "updatedInput is taken, unless there is a deny", "differs",
        "Reasonix cannot be told a changed input, so it is told a block; the decision itself has the patch",
    ),
    Row("RG-21", "Claude form at PermissionRequest: exit 2 blocks, an allow is flagged"),
    Row("RG-22", "a Claude payload has snake_case keys, Claude's tool name, and no native key", "differs", NO_NAMES),
    Row("RG-23", "a Claude guard sees Claude's tool name and an absolute file_path", "differs", NO_NAMES),
    Row("RG-24", "a tool's response is put into the shape that Claude Code has", "differs", NO_NAMES),
    Row(
        "RG-25", "an async hook is started and not waited for", "differs",
        "the host says that it does not wait (wait = false); a hook's own background process delays nothing",
    ),
    Row("RG-26", "what a command prints, reads and how it ends; output is kept up to 256 KiB"),
    Row("RG-27", "arguments of the exec form are delivered literally"),
    Row("RG-28", "the shell form is a real shell"),
    Row(
        "RG-29", "unknown modes and shells, missing programs, other codes and time-outs are told apart", "differs",
        "the same five are told apart, but an unknown mode or shell is refused when it is registered",
    ),
    Row("RG-30", "no hooks: no block and no text; exit 2: a block, a text for the model and one for people"),
    Row(
        "RG-31", "an observer's failure is told to people and never to the model", "differs",
        "the same after a tool; PermissionRequest with exit 2 is a block here, not only a note",
    ),
    Row(
        "RG-32", "text for the model is opt-in, labelled and cleaned of control characters", "differs",
        "opt-in the same (output = json); it arrives as the hook wrote it, and Reasonix has no place for it",
    ),
    Row(
        "RG-33", "what a hook prints after the model replaces the reasoning", "differs",
        'a command says so in JSON (output = "json"); a hook that the client serves answers as in Reasonix',
    ),
    Row(
        "RG-34", "a context file is usable if it can be read", "not applicable",
        "contextFile is part of Reasonix's plugin packages; a hook that prints a file is a command",
    ),
    Row(
        "RG-35", "broken quoting of commands is repaired", "not applicable",
        "it repairs what Windows shells and PowerShell do; the daemon runs on Linux and starts lines as written",
    ),
)  # fmt: skip

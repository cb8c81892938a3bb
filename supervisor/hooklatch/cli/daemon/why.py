"""The command `why`: what a cause of a decision or a word of the status means, and what to do about it.

`tests/cli/daemon/test_why.py` holds that each one that the daemon can report has its row.
"""

from __future__ import annotations

import argparse

from hooklatch.cli.terminal import look, output
from hooklatch.cli.terminal.agent_session import add_session, look_at_session, read_refusals
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.core.hooks.names import quote_name
from hooklatch.core.outcome_texts import read_hook_name
from hooklatch.core.subject import read_subject, read_tool_name
from hooklatch.core.text import suggest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EXPLAINED", "add_why"]

# In place of the row's: an agent reads it, and is not told how guards are left out.
RULE = "Choose another way, or ask the person whose rule this is."
KEYS = ("cause", "happened", "means", "do")
# A word: what happened, what that means, what to do.
EXPLAINED = {
    # Causes of decisions.
    "policy": (
        "A guard refused, or asked, by its own words.",
        "Nothing is broken: the reason beside it is the guard's, and so is the decision.",
        "If it should pass, change the guard, or leave it out for a time: hooklatch suspend NAME.",
    ),
    "crash": (
        "A guard raised an exception, or its worker process died.",
        "It said nothing of this call. What it guards is refused until it answers again.",
        "hooklatch hooks show NAME has the traceback. A saved file is loaded at once.",
    ),
    "timeout": (
        "A guard took longer than its timeout, waiting for a worker included.",
        "It was ended, and the call refused. It said nothing of this call.",
        "hooklatch top shows whether it is slow or its queue long. Raise `timeout`, or `workers` of its [[source]].",
    ),
    "overload": (
        "No worker was free and the queue was full, or too many asks waited.",
        "Nobody judged this call. Another try may pass.",
        "See hooklatch top, then raise `workers` of the [[source]].",
    ),
    "protocol": (
        "A guard's answer is not allowed for this event, or could not be read.",
        "What it meant is not known, so the call was refused.",
        "hooklatch events EVENT lists the allowed answers. A shell hook ends with 0 to pass or 2 to refuse.",
    ),
    "load": (
        "A file of hooks cannot be read or imported, or is gone, or a project's hooks changed after they were trusted.",
        "Gates are refused while a guard may be missing.",
        "hooklatch status names file and line. For removed files: hooklatch reload --accept-removed, for a project's "
        "change: hooklatch trust.",
    ),
    "payload": (
        "The event is too large, has a key twice, or lacks a field that a matcher or a condition needs.",
        "Guards might have judged something else than what runs.",
        "hooklatch hooks explain EVENT --payload FILE names the field.",
    ),
    "unsettled": (
        "Hooks changed the input again after the guards had judged it.",
        "Two hooks undo each other's changes, so no judgement holds.",
        "Let one hook make both changes.",
    ),
    "unanswered": (
        "A guard asked, and no person answered in time.",
        "An ask without an answer is a refusal.",
        "Answer with hooklatch asks --follow, or give more time: `wait` in [ask].",
    ),
    "draining": (
        "The daemon was about to end.",
        "It answers what is in flight, and refuses what is new.",
        "Start it again: hooklatch serve --detach.",
    ),
    "no_daemon": (
        "No daemon listened at the agent's socket.",
        "Nobody judged this call, and every gate is refused until a daemon listens.",
        "Start it: hooklatch serve --detach. hooklatch doctor says why it is gone.",
    ),
    "abandoned": (
        "The agent left before there was an answer.",
        "Its own time limit may be shorter than that of the hooks.",
        "Raise the agent's limit, or lower `timeout` of the hooks that hooklatch log --decision ID names.",
    ),
    "audit": (
        "The decision could not be written to the record.",
        "What is not on record is refused.",
        "hooklatch status names the fault, such as a full disk.",
    ),
    # Calls that ran otherwise than they were judged.
    "overruled": (
        "A tool call ran, though it was refused or the decision never reached the agent.",
        "Something went around the guards. It stays red until you acknowledge it.",
        "Find it: hooklatch log --cause overruled, hooklatch doctor. Then: hooklatch log acknowledge --reason TEXT.",
    ),
    "unasked": (
        "A tool call ran, and no guard was asked.",
        "An entry is missing in the agent's settings, or something went around it.",
        "Find it: hooklatch log --cause unasked, hooklatch doctor. Then: hooklatch log acknowledge --reason TEXT.",
    ),
    "altered": (
        "A tool call ran with another input than the one that was judged.",
        "Another hook or program changed it behind the guards.",
        "Find it: hooklatch log --cause altered, hooklatch doctor. Then: hooklatch log acknowledge --reason TEXT.",
    ),
    # Words of the status, red and yellow.
    "parts": (
        "A part of the daemon failed, or clients cannot be accepted.",
        "It is started again by itself. Meanwhile calls may be refused.",
        "If it lasts: hooklatch status --tree, and the daemon's log.",
    ),
    "zygote": (
        "The process that starts workers does not run.",
        "No guard can be called, so gates are refused.",
        "It is started again by itself. If it is not, memory or processes are short.",
    ),
    "record": (
        "Red: decisions cannot be recorded, or the record has a fault. Yellow: that is over, or its disk gets full.",
        "A gate that cannot be recorded is refused.",
        "Make room on its disk, then: hooklatch log verify, hooklatch log acknowledge --reason TEXT.",
    ),
    "isolation": (
        "Workers of a source are isolated less than its configuration says.",
        "This machine lacks something that the level needs.",
        "Add what is missing, or set a lower level in its [[source]].",
    ),
    "files": (
        "Red: a file of hooks has an error, and its last good version stays active. Yellow: an entry of hooks.d is not "
        "read, or declares no hook.",
        "A guard may be missing: with an error in a new file, gates are refused.",
        "Repair the line that it names, or remove the entry. A saved file is loaded at once.",
    ),
    "hooks": (
        "Red: a hook that a client registered cannot be called. Yellow: no hook of yours on a gate is enabled.",
        "The gate of a hook that cannot be called is refused. Without hooks nothing is.",
        "Restart that client, or: hooklatch hooks remove NAME. For guards to start from: hooklatch guards list.",
    ),
    "faults": (
        "A plugin, the state file or a port of the daemon has a fault.",
        "What it names does not work, or would be lost at a restart.",
        "Repair what it names, then start the daemon again.",
    ),
    "quarantined": (
        "A guard's worker died more than five times in 30 seconds.",
        "It is not called, and what it guards is refused.",
        "Fix it. A saved file ends that, and so does: hooklatch hooks enable NAME.",
    ),
    "failing": (
        "A guard failed in each of its last five calls, or in every call of its newest version.",
        "It judges nothing, and what it guards is refused.",
        "hooklatch hooks show NAME has the traceback of each failure.",
    ),
    "state": (
        "Red: what hooks remember cannot be read or written. Yellow: `kept` in [state] was changed.",
        "Hooks that need it fail. A changed setting is not in force yet.",
        "Put a copy of `kept-state` in its place, or delete it. Then start the daemon again.",
    ),
    "suspended": (
        "A person left out a hook, or all hooks, for a limited time.",
        "What it guards is not judged by it until then.",
        "To end that now: hooklatch resume NAME, or --all.",
    ),
    "fleet": (
        "The fleet's policy is refused, unknown or too old.",
        "Gates are refused while a policy that is wanted is not in force.",
        "`hooklatch link` must run, and says on its standard error what keeps it.",
    ),
    "calls": (
        "A tool call did not run as it was judged.",
        "Something went around the guards.",
        "hooklatch log --kind fault has it. Then: hooklatch log acknowledge --reason TEXT.",
    ),
    "switches": (
        "A hook was enabled, disabled or suspended by a name that may mean several.",
        "The change was not taken over.",
        "See hooklatch hooks, and switch it again by its full name.",
    ),
    "version": (
        "Another version of hooklatch is installed than the daemon runs.",
        "The daemon judges with the version that it was started from.",
        "To run what is installed: hooklatch restart.",
    ),
    "disabled": (
        "A hook that cannot be loaded is disabled.",
        "It judges nothing, and its gates go on without it.",
        "If that is not meant so, fix it, and then: hooklatch hooks enable NAME.",
    ),
    "projects": (
        "A project's hooks are not trusted, have changed since, or cannot be looked up.",
        "Hooks that are not trusted are not called. In the other two cases gates there are refused.",
        "Look at them, then: hooklatch trust.",
    ),
    "configuration": (
        "There is no file of hooks and no hooks.d.",
        "None of your own guards is active.",
        "hooklatch init writes a first one, or start the daemon with another --config.",
    ),
    "watch": (
        "The kernel watches too few files.",
        "A change is noticed two seconds late.",
        "Raise fs.inotify.max_user_watches or max_user_instances (sysctl).",
    ),
    "commands": (
        "A shell hook runs a file that the agent can write.",
        "The agent could change what judges it.",
        'Name it by an absolute path that only you can write, or set run_in = "file".',
    ),
    "asks": (
        "A notifier of [ask.notify] failed, so perhaps nobody heard that an ask waits.",
        "No decision is changed: the ask waits, and its gate is refused when the time for it is over.",
        "Repair what it names, or the table. What waits: hooklatch asks.",
    ),
    "notes": (
        "A hook names a tool that is not known, or a file beside a source has hooks and is no source.",
        "It may guard nothing.",
        "Nothing, if that is meant so. Else correct the name, or add the file as a [[source]].",
    ),
}


def add_why(parser: Parser) -> None:
    parser.runs(run_why, example="hooklatch why crash", exits=(Exit.NO_INPUT,))
    parser.prints("cli.schema:WhyOutput", "cli.schema:RefusalOutput")
    parser.add_argument("cause", metavar="CAUSE", nargs="?", help="a cause of a decision, or a word of the status")
    parser.add_argument(
        "--last", action="store_true", help="why a session's last call was refused, and what to do; never an error"
    )
    add_session(parser)


def run_why(arguments: argparse.Namespace) -> int:
    if arguments.last:
        if (session := look_at_session(arguments)) is not None:
            refusal = next(read_refusals(session), None)
            output.say_result({"refusal": refusal}, is_json=arguments.json, show=lambda: print_refusal(refusal))
        return Exit.OK
    if arguments.session is not None:
        raise CommandError(Exit.USAGE, "--session is for --last")
    words = [arguments.cause] if arguments.cause is not None else [*EXPLAINED]
    if unknown := next((word for word in words if word not in EXPLAINED), None):
        text = f"there is no cause {unknown!r}{suggest_name(unknown, EXPLAINED)}; hooklatch why lists all"
        raise CommandError(Exit.NO_INPUT, text)
    if arguments.json:
        rows = [(word, *EXPLAINED[word]) for word in words]
        output.say_json({"causes": [dict(zip(KEYS, row, strict=True)) for row in rows]})
    elif arguments.cause is not None:
        output.print_line(" ".join(EXPLAINED[arguments.cause]))
    else:
        output.say_table(("CAUSE", "WHAT HAPPENED"), [(word, EXPLAINED[word][0]) for word in words])
    return Exit.OK


def print_refusal(record: Mapping[str, object] | None) -> None:
    """Print what was refused, by whom and why, and what to do: of hostile texts each is one line."""
    if record is None:
        output.print_line("hooklatch refused nothing in this session")
        return
    hook, cause = read_hook_name(record), str(record.get("cause") or "policy")
    happened, means, do = EXPLAINED.get(cause, EXPLAINED["policy"])
    output.say_lines(
        ("refused", read_subject(record)),
        ("tool", read_tool_name(record) or record.get("event")),
        ("guard", hook),
        ("reason", record.get("reason")),
        ("instead", record.get("instead")),
        ("cause", f"{cause}. {happened} {means}"),
        ("do", RULE if cause == "policy" else do.replace("NAME", quote_name(hook) if hook else "NAME")),
        ("at", look.format_moment(record.get("at"))),
        ("more", f"hooklatch log --decision {record.get('decision_id')}"),
    )

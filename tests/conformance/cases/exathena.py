"""The rows of ExAthena that its own functions in Elixir show.  Plain data.

No payload says the session's own folder or id; each has terms that JSON has not.
"""

from __future__ import annotations

from typing import Any, Final

from clients import exathena_calls
from clients.elixir_form import (
    OK,
    answers,
    at,
    call,
    calls,
    gave,
    join,
    keys,
    names,
    path,
    raises,
    struct,
    tuple_,
    when,
)
from clients.exathena_calls import augment, before, deny, group, halt, hook, outputs, run
from conformance.driving import ANY, Case, Command, Step, has, part, step
from conformance.runs.exathena import config

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "elixir"
OPERATORS = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="forbidden")
def guard(event):
    return deny("forbidden is not allowed here")
"""
# The operator's own guard, and a language server that finds each BAD.
FILES: Final[dict[str, str]] = {
    "hooks.toml": '[[source]]\npath = "guard.py"\n\n' + config(),
    "guard.py": OPERATORS,
    "a.bad": "BAD\n",
    "sub/a.bad": "\n  BAD\n",
}
DAEMONS = "../daemon"  # the folder of these files, from the session's own


def opening(path: str, folder: str) -> list[Command]:
    """Return the command that says how each process of a row opens its session."""
    return [{"do": "native", "call": "configure", "path": path, "cwd": folder, "host": "rows"}]


def case(*steps: Step) -> Case:
    return Case(steps)


def after(hooks: Any, tool: str, answer: Any, *called: Any, **result: Any) -> Step:
    return exathena_calls.after(hooks, tool, keys(**{"result": OUTPUT, **result}), answer, *called)


def uncalled(given: Step) -> Step:
    """The same step, and no function is called."""
    return Step(given.command, {**dict(given.gives), "called": []}, True)  # type: ignore[call-overload]


OUTPUT = struct("Message", role=":tool", content="output", name=None)
TICKET = struct("Message", role=":system", content="Current ticket: ENG-1234", name="ticket-context")
DENIAL = struct("Denial", code=":user_denied", requested_tool="bash")
RAN = hook(OK)
NO = hook(answers(deny()), "no")
SESSION = keys(session_id="my-run", parent_session_id=None)
ENDED = {**SESSION, **keys(finish_reason=":stop", result=tuple_(":ok", "r"))}
ARGUMENTS = {"path": "lib/a.ex", "deep": {"depth": 1.0, "none": None}}
TOOL = keys(tool_name="bash", tool_use_id="t-1")

# Each event with a payload of its own, and the second argument that its functions are given.
PAYLOADS: dict[str, tuple[Any, Any]] = {
    "SessionStart": (SESSION, "my-run"),
    "SessionEnd": (ENDED, "my-run"),
    "UserPromptSubmit": ({**SESSION, ":prompt": "hello"}, "my-run"),
    "PreIteration": (keys(iteration=0, unproductive_iterations=0, fingerprint=[":a"], session_id="my-run"), "my-run"),
    "ChatParams": (keys(request=keys(model="m-1"), messages=[OUTPUT], session_id="my-run"), "my-run"),
    "Stop": (ENDED, "my-run"),
    "StopFailure": ({**ENDED, ":finish_reason": ":error_max_turns"}, "my-run"),
    "PostToolUseFailure": ({**TOOL, ":reason": tuple_(":enoent", "a")}, "t-1"),
    "PermissionRequest": ({**TOOL, ":arguments": ARGUMENTS}, "t-1"),
    "PermissionDenied": ({**TOOL, ":arguments": ARGUMENTS, ":reason": ":protected"}, "t-1"),
    "ToolDenied": ({**TOOL, ":arguments": ARGUMENTS, ":denial": DENIAL}, "t-1"),
    "SubagentStart": (
        keys(
            subagent_id="a-1", prompt="look", parent_session_id="my-run", agent="explore",
            isolation=tuple_(":in_process", ":no_git"),
        ),
        None,
    ),
    "SubagentStop": (keys(subagent_id="a-1", outcome=":ok", result="r", isolation=":worktree_kept"), None),
    "PreCompact": (keys(estimate=4000), None),
    "PreCompactStage": (keys(stage=":summarize", estimate=4000), None),
    "PostCompact": (keys(metadata=keys(before=4000, after=10, reason=":forced")), None),
    "Notification": (keys(message="hello", notification_type=":info", of_the_host=tuple_(1, 2.5)), None),
}  # fmt: skip


def told(event: str, function: str = "hook") -> Any:
    """Return the call of a function by which it is told of an event in its own terms."""
    payload, id_ = PAYLOADS[event]
    return calls(function, payload, id_)


def every_event() -> Case:
    """Fire each with a function on it; two of them are one here (XA-29)."""
    called = {**TOOL, **ARGUMENTS}
    edited = part(**keys(tool_name="bash", result=OUTPUT))
    return case(
        step(call("ExAthena.events"), gives=gave([ANY] * (len(PAYLOADS) + 2))),
        *(run(keys(**{event: [RAN]}), event, payload, ":ok", told(event)) for event, (payload, _) in PAYLOADS.items()),
        before(keys(PreToolUse=[RAN]), "bash", ARGUMENTS, ":ok", calls("hook", called, "t-1")),
        after(keys(PostToolUse=[RAN]), "bash", ":ok", calls("hook", edited, "t-1")),
    )


def augmented(answer: Any, *texts: str) -> Case:
    functions = [hook(answers(augment(text))) for text in texts]
    return case(after(keys(PostToolUse=[group(*functions)]), "bash", answer, *names(*["hook"] * len(texts))))


def injected(event: str) -> Case:
    """What a function injects comes back as it was, be it a message or a list of them."""
    payload = PAYLOADS[event][0]
    plain = {"role": "system", "content": "plain"}
    one, several = (hook(answers(tuple_(":inject", what))) for what in (TICKET, [TICKET, plain]))
    return case(
        outputs(keys(**{event: [one]}), event, payload, told(event), injects=[TICKET]),
        outputs(keys(**{event: [several]}), event, payload, told(event), injects=[TICKET, plain]),
        run(keys(**{event: [one]}), event, payload, ":ok", told(event)),
    )


def refused_by_the_system(tool: str) -> Case:
    """After a refusal the daemon tells the functions on PermissionDenied, which nobody waits for."""
    given = keys(PreToolUse=[hook(answers(deny()), "no")], PermissionDenied=[hook(OK, "denied")])
    payload = part(**keys(tool_name=tool, tool_use_id="t-1", arguments=ARGUMENTS, reason="not this"))
    refused = call("ExAthena.run_pre_tool_use", given, tool, ARGUMENTS, "t-1", begin=True)
    return case(
        step(refused),
        step(
            {"do": "native", "call": "called", "count": 2},
            gives=gave(":ok", *names("no"), calls("denied", payload, "t-1")),
        ),
        step({"do": "native", "call": "end"}, gives=gave(deny())),
    )


def iterated(given: Any, *steps: tuple[int, int, Any]) -> Case:
    def payload(number: int, unproductive: int) -> Any:
        return {**PAYLOADS["PreIteration"][0], ":iteration": number, ":unproductive_iterations": unproductive}

    return case(
        *(
            run(
                keys(PreIteration=[given]), "PreIteration", payload(number, unproductive), answer,
                calls("hook", payload(number, unproductive), "my-run"),
            )
            for number, unproductive, answer in steps
        )
    )  # fmt: skip


def ended(event: str, finish_reason: str) -> Case:
    given = keys(**{name: [hook(OK, name)] for name in ("Stop", "StopFailure", "SessionEnd")})
    payload = {**ENDED, ":finish_reason": finish_reason}
    return case(*(run(given, name, payload, ":ok", calls(name, payload, "my-run")) for name in (event, "SessionEnd")))


def diagnosed(file: Any, answer: Any, given: Any = None, tool: str = "Edit", *, cwd: str = DAEMONS) -> Step:
    """Tell of an edit below a folder that is not the session's."""
    arguments = {} if file is None else {"arguments": file if isinstance(file, dict) else {"file_path": file}}
    return after(given or {}, tool, answer, cwd=path(cwd), **arguments)


FOUND = "[lsp diagnostics]\nerror: this is BAD at a.bad:1:1"
EXPANDED = when(
    ":prompt", has="/deploy", then=answers(tuple_(":transform", "Deploy the staging branch.")), otherwise=OK
)
ADDED = answers(tuple_(":transform", join("For ENG-1234: ", at(":prompt"))))
OWN = hook(answers(augment("mine")), "own")

CASES: Final[dict[str, Case]] = {
    "XA-01": case(
        *(
            before(
                keys(PreToolUse=[group(NO, matcher="write|edit")]), tool, ARGUMENTS, deny(),
                calls("no", {**ARGUMENTS, **keys(tool_name=tool, tool_use_id="t-1")}, "t-1"),
            )
            for tool in ("write", "edit", "multi_edit")  # it searches
        ),
        uncalled(before(keys(PreToolUse=[group(NO, matcher="write|edit")]), "read", ARGUMENTS, ":ok")),
    ),
    "XA-02": case(
        before(keys(PreToolUse=[group(NO, RAN), RAN]), "write", ARGUMENTS, deny(), *names("no")),
        before(
            keys(PreToolUse=[hook(answers(deny(":protected_path")), "typed"), RAN]), "write", ARGUMENTS,
            deny(":protected_path"), *names("typed"),
        ),
    ),
    "XA-03": case(
        after(keys(PostToolUse=[NO]), "write", ":ok", *names("no")),
        after(keys(PostToolUse=[hook(answers(halt(":enough")))]), "write", halt(":enough"), *names("hook")),
    ),
    "XA-04": case(run(keys(Stop=[RAN, RAN]), "Stop", ENDED, ":ok", told("Stop"), told("Stop"))),
    "XA-05": case(
        before(
            keys(PreToolUse=[keys(hooks=[hook(raises("broken"))])]), "write", ARGUMENTS,
            deny(has("hook crashed (fail-safe deny)")), *names("hook"),
        ),
        before(keys(PreToolUse=[keys(hooks=[RAN])]), "write", ARGUMENTS, ":ok", *names("hook")),
    ),
    "XA-06": augmented(augment("text"), "text"),
    "XA-07": augmented(augment("first\nsecond"), "first", "second"),
    "XA-08": augmented(":ok", ""),
    "XA-09": case(
        after(
            keys(PostToolUse=[hook(answers(augment("text")), "a"), hook(answers(halt()), "b")]), "write", halt(),
            *names("a", "b"),
        )
    ),
    "XA-10": case(
        uncalled(after(keys(PostToolUse=[group(OWN, matcher="^(Edit|Write)$")]), "Read", ":ok")),
        after(keys(PostToolUse=[group(OWN, matcher="^(Edit|Write)$")]), "Edit", augment("mine"), *names("own")),
    ),
    "XA-11": every_event(),
    "XA-12": ended("Stop", ":stop"),
    "XA-13": ended("StopFailure", ":error_max_turns"),
    "XA-14": case(
        outputs(
            keys(UserPromptSubmit=[hook(EXPANDED)]), "UserPromptSubmit", {**SESSION, ":prompt": "/deploy"},
            transform="Deploy the staging branch.",
        ),
        outputs(keys(UserPromptSubmit=[hook(EXPANDED)]), "UserPromptSubmit", {**SESSION, ":prompt": "hello"}),
        outputs(
            keys(UserPromptSubmit=[hook(ADDED)]), "UserPromptSubmit", {**SESSION, ":prompt": "go on"},
            transform="For ENG-1234: go on",
        ),
    ),
    "XA-15": injected("UserPromptSubmit"),
    "XA-16": injected("ChatParams"),
    "XA-17": refused_by_the_system("bash"),
    "XA-18": case(run(keys(PostToolUseFailure=[RAN]), "PostToolUseFailure", PAYLOADS["PostToolUseFailure"][0], ":ok",
                      told("PostToolUseFailure"))),
    "XA-19": iterated(hook(OK), (0, 0, ":ok"), (1, 0, ":ok"), (2, 0, ":ok")),
    "XA-20": injected("PreIteration"),
    "XA-21": iterated(
        hook(when(":iteration", is_=1, then=answers(halt("enough")), otherwise=OK)),
        (0, 0, ":ok"), (1, 0, halt("enough")),
    ),
    "XA-22": case(
        *(
            run(keys(PreIteration=[RAN], Stop=[RAN]), event, PAYLOADS[event][0], ":ok", told(event))
            for event in ("PreIteration", "Stop")
        )
    ),
    "XA-23": iterated(
        hook(when(":unproductive_iterations", is_=2, then=answers(halt(":stalled")), otherwise=OK)),
        (0, 0, ":ok"), (1, 0, ":ok"), (2, 1, ":ok"), (3, 2, halt(":stalled")),
    ),
    "XA-24": case(
        after(
            keys(PostToolUse=[OWN]), "edit", augment("mine"),
            calls("own", part(**keys(result=OUTPUT, tool_name="edit")), "t-1"),
        )
    ),
    "XA-25": case(after(keys(PostToolUse=[RAN]), "edit", ":ok", *names("hook"))),
    "XA-26": case(
        after(
            keys(PostToolUse=[RAN]), "edit", ":ok",
            calls(
                "hook",
                part(**keys(result=OUTPUT, arguments=ARGUMENTS, cwd="/srv/other", tool_name="edit")), "t-1",
            ),
            arguments=ARGUMENTS, cwd="/srv/other",
        )
    ),
    "XA-27": case(run(keys(ToolDenied=[RAN]), "ToolDenied", PAYLOADS["ToolDenied"][0], ":ok", told("ToolDenied"))),
    "XA-28": case(before({}, "forbidden", ARGUMENTS, deny("forbidden is not allowed here"))),
    "XA-29": case(
        *(
            run(
                keys(PermissionDenied=[hook(OK, "denied")], ToolDenied=[hook(OK, "typed")]), event, PAYLOADS[event][0],
                ":ok", told(event, "denied"), told(event, "typed"),
            )
            for event in ("PermissionDenied", "ToolDenied")
        )
    ),
    "XA-30": case(
        *(
            step(
                call(
                    "ExAthena.run_pre_tool_use", keys(PreToolUse=[group(RAN), group(NO, matcher="write")]), tool,
                    ARGUMENTS, "t-1", process="subagent",
                ),
                gives=gave(answer),
            )
            for tool, answer in (("write", deny()), ("read", ":ok"))
        )
    ),
    "XA-31": case(before(keys(PreToolUse=[group(NO, matcher="spawn_agent")]), "spawn_agent", {"agent": "a"}, deny())),
    "XA-33": case(run(keys(SessionStart=[RAN]), "SessionStart", SESSION, ":ok", told("SessionStart"))),
    "XA-34": case(
        *(run(keys(SessionStart=[RAN]), "SessionStart", SESSION, ":ok", told("SessionStart")) for _ in range(2))
    ),
    "XA-35": case(
        run(
            keys(SessionStart=[RAN]), "SessionStart", {**SESSION, ":session_id": "explicit"}, ":ok",
            calls("hook", {**SESSION, ":session_id": "explicit"}, "explicit"),
        )
    ),
    "XA-36": Case(
        (
            run(
                keys(SessionStart=[RAN]), "SessionStart", {**SESSION, ":session_id": "other"}, ":ok",
                calls("hook", {**SESSION, ":session_id": "other"}, "other"),
            ),
        ),
        {"session_id": "the-sessions"},
    ),
    "XA-37": case(run(keys(SubagentStart=[RAN]), "SubagentStart", PAYLOADS["SubagentStart"][0], ":ok",
                      told("SubagentStart"))),
    "XA-38": refused_by_the_system("mcp__files__write"),
    "XA-39": case(
        before(
            keys(PreToolUse=[RAN]), "mcp__files__read", ARGUMENTS, ":ok",
            calls("hook", part(**keys(tool_name="mcp__files__read")), "t-1"),
        ),
        after(
            keys(PostToolUse=[RAN]), "mcp__files__read", ":ok",
            calls("hook", part(**keys(tool_name="mcp__files__read")), "t-1"),
        ),
    ),
    "XA-42": case(diagnosed({}, ":ok")),
    "XA-43": case(diagnosed(None, ":ok")),
    "XA-44": case(diagnosed("a.unheard-of", ":ok")),
    "XA-46": case(
        diagnosed("a.bad", augment(FOUND)),
        diagnosed("a.bad", augment(FOUND), tool="write"),
        diagnosed("a.bad", ":ok", cwd="."),
    ),
    "XA-50": case(diagnosed("sub/a.bad", augment("[lsp diagnostics]\nerror: this is BAD at sub/a.bad:2:3"))),
    "XA-52": case(diagnosed("a.bad", augment(f"{FOUND}\nmine"), keys(PostToolUse=[OWN]))),
    "XA-53": case(diagnosed("a.bad", augment(FOUND), {})),
}  # fmt: skip

OWN_CONFIGURATION = "it needs a configuration of the language server of its own, which is the daemon's"
WIRE: Final[dict[str, str]] = {
    "XA-32": "the id is one of a session that the daemon opens; a payload that states none is handed on without one",
    **dict.fromkeys(("XA-41", "XA-45", "XA-47", "XA-48", "XA-49", "XA-51"), OWN_CONFIGURATION),
}

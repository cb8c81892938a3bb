"""The rows of BeamAgent that its own functions in Elixir show.  Plain data.

No context says the session's own folder or id; each has terms that JSON has not.
"""

from __future__ import annotations

import random
from typing import Any, Final

from clients import beam_calls
from clients.beam_calls import (
    BLOCKING,
    BUS,
    EVENTS,
    FINE,
    LISTENER,
    NOTIFYING,
    adds,
    ask,
    bus,
    context,
    deny,
    done,
    made,
    registry,
    told,
)  # fmt: skip
from clients.elixir_form import (
    answers,
    append,
    at,
    call,
    calls,
    fun,
    gave,
    join,
    keys,
    merge,
    names,
    raises,
    throws,
    tuple_,
    without,
)  # fmt: skip
from conformance.driving import ABSENT, ANY, Case, Command, Step, has, part, step

__all__ = ["CASES", "FILES", "LANGUAGE", "WIRE", "opening"]

LANGUAGE: Final = "elixir"
FILES: Final[dict[str, str]] = {}

GATE = "pre_tool_use"
CRASHED = has("hook crashed (fail-safe deny)")
RUNS = 60  # of each property; BeamAgent has 200
dice = random.Random(91)


def opening(path: str, folder: str) -> list[Command]:
    """Return the command that says how each process of a row opens its session."""
    return [{"do": "native", "call": "configure", "path": path, "cwd": folder, "host": "rows"}]


def hook(does: Any, event: str = GATE, name: str = "hook", matcher: str | None = None) -> Any:
    return beam_calls.hook(event, does, name, matcher)


def fired(event: str, hooks: Any, answer: Any, *called: Any, **more: Any) -> Step:
    return beam_calls.fire(event, hooks, context(event, **more), answer, *called)


def ok(event: str = GATE, **more: Any) -> Any:
    return tuple_(":ok", context(event, **more))


def case(*steps: Step) -> Case:
    return Case(steps)


def given(answer: Any, function: str, *arguments: Any) -> Step:
    return step(call(f"BeamAgent.{function}", *arguments), gives=gave(answer))


F = fun(FINE, "f", 1)
MATCHER = keys(tool_name="^(Write|Edit)$")
NEW = {"$call": "BeamAgent.new_registry", "with": []}
NO = answers(deny())
PERHAPS = answers(ask())
CRASH = raises("broken")


def trail(name: str) -> Any:
    return answers(tuple_(":ok", merge({":trail": append(":trail", name)})))


def listed(**hooks: int) -> Step:
    """Look at the global registry: so many hooks are under each event, and nothing else is there."""
    return given({f":{event}": [ANY] * count for event, count in hooks.items()}, "global_registry")


def heard_of(*events: str) -> Case:
    return case(*(fired(event, [hook(FINE, event)], ok(event), calls("hook", context(event))) for event in events))


def ignored(event: str, answer: Any) -> Case:
    return case(fired(event, [hook(answers(answer), event)], ok(event), calls("hook", context(event))))


def refused(event: str) -> Case:
    return case(fired(event, [hook(answers(deny("not here")), event)], deny("not here"), calls("hook", context(event))))


def matched(pattern: str | None, tool: str, *, fires: bool, unlike: str | None = None) -> Case:
    """A matcher finds a tool or not; with the tool `unlike` it, it is the other way round."""

    def fired_with(tool: str, *, fires: bool) -> Step:
        called = gave(deny() if fires else ok(tool_name=tool)) | {"called": names("hook") if fires else []}
        given = registry(hook(NO, matcher=pattern))
        return step(call("BeamAgent.fire", f":{GATE}", context(tool_name=tool), given), gives=called)

    return case(fired_with(tool, fires=fires), *([fired_with(unlike, fires=not fires)] if unlike else []))


def crashed(does: Any, text: str) -> Case:
    hooks = [hook(does, name="first"), hook(FINE, name="second")]
    return case(*(fired(GATE, hooks, deny(wanted), *names("first")) for wanted in (CRASHED, has(text))))


def stopped(does: Any, answer: Any) -> Case:
    """What stops a blocking chain in the middle keeps the third hook from running."""
    hooks = [hook(adds(a=":first"), name="a"), hook(does, name="b"), hook(FINE, name="c")]
    return case(fired(GATE, hooks, answer, calls("a", context()), calls("b", context(a=":first"))))


def threaded(*middle: Any) -> Case:
    """On a notification whatever stands in the middle stops nobody, and changes nothing."""
    hooks = [
        hook(adds(a=":first"), "stop", "a"),
        *(hook(does, "stop", "b") for does in middle),
        hook(adds(c=tuple_(":third", 3)), "stop", "c"),
    ]
    seen = context("stop", a=":first")
    return case(
        fired(
            "stop", hooks, ok("stop", a=":first", c=tuple_(":third", 3)),
            calls("a", context("stop")), *(calls("b", seen) for _ in middle), calls("c", seen),
        )
    )  # fmt: skip


def unchanged(given: Any) -> Case:
    return case(*(fired(event, given, ok(event)) for event in EVENTS))


def globally(*steps: Step) -> Case:
    return case(listed(), *steps)


MIXED = ("hooks", "skills", "tools")


def everywhere(*hooks: Any) -> list[Step]:
    return [done("register_global", one) for one in hooks]


def nowhere(*hooks: Any) -> list[Step]:
    return [done("unregister_global", one) for one in hooks]


ONE = hook(answers(deny("everywhere")), name="one")
OTHER = hook(adds(other=":seen"), name="other")
ON_STOP = hook(adds(stopped=":seen"), "stop", "on stop")
AUDITED = ok(tool_input={"command": "ls"})
REWRITTEN = merge({":prompt": join("[checked] ", at(":prompt"))})


def listening(*steps: Step) -> Case:
    """Subscribe a process to the bus of the node."""
    return globally(step(call(f"{BUS}.version", keep="version")), bus("subscribe"), *steps, bus("unsubscribe"))


def random_text() -> str:
    text = "".join(chr(dice.choice((dice.randrange(1, 0xD800), 10, 34))) for _ in range(dice.randint(1, 40)))
    return text.lstrip(":") or "x"


def some(events: dict[str, Any]) -> list[str]:
    return dice.choices(list(events), k=RUNS)


REASON_OF_INPUT = answers(deny(at(":tool_input", "reason")))
REASONS = [random_text() for _ in range(RUNS)]
TOOLS = [
    dice.choice(("Bash", "bash", "Bash\n", "BashOutput", "".join(dice.choices("Bash$^.", k=4)))) for _ in range(RUNS)
]

CASES: Final[dict[str, Case]] = {
    "BA-01": case(made("session_start", keys(event=":session_start", callback=ANY))),
    "BA-02": case(
        given(part(**keys(matcher=MATCHER, event=f":{GATE}")), "hook", f":{GATE}", F, MATCHER)
    ),
    "BA-03": case(*(made(event, keys(event=f":{event}", callback=ANY)) for event in EVENTS)),
    "BA-04": case(given({}, "new_registry")),
    "BA-05": case(
        given({":stop": [part(**keys(event=":stop", callback=ANY, matcher=ABSENT))]}, "register_hook", ON_STOP, NEW)
    ),
    "BA-06": case(given({f":{GATE}": [ANY, ANY], ":stop": [ANY]}, "register_hooks", [ONE, ON_STOP, OTHER], NEW)),
    "BA-07": case(
        fired(
            GATE, [hook(trail("first"), name="a"), hook(trail("second"), name="b")], ok(trail=["first", "second"]),
            calls("a", context()), calls("b", context(trail=["first"])),
        )
    ),
    "BA-08": unchanged({}),
    "BA-09": case(*(fired(GATE, nothing, ok()) for nothing in (None, ":undefined"))),
    "BA-10": case(
        *(
            fired(
                event, [hook(FINE, event)], ok(event, session_id="s-beam"),
                calls("hook", context(event, session_id="s-beam")), session_id="s-beam",
            )
            for event in EVENTS
        )
    ),
    "BA-11": ignored("post_tool_use", deny()),
    "BA-12": ignored("post_tool_use", ask()),
    "BA-13": ignored("stop", deny()),
    "BA-14": ignored("session_start", deny()),
    "BA-15": ignored("session_end", deny()),
    "BA-16": refused("pre_tool_use"),
    "BA-17": refused("user_prompt_submit"),
    "BA-18": case(fired(GATE, [hook(answers(deny(name)), name=name) for name in "ab"], deny("a"), *names("a"))),
    "BA-19": case(fired(GATE, [hook(FINE, name="a"), hook(FINE, name="b")], ok(), *names("a", "b"))),
    "BA-20": case(fired(GATE, [hook(FINE, name="a"), hook(NO, name="b")], deny(), *names("a", "b"))),
    "BA-21": case(fired(GATE, [hook(PERHAPS)], ask(), *names("hook"))),
    "BA-22": case(fired(GATE, [hook(PERHAPS, name="a"), hook(NO, name="b")], ask(), *names("a"))),
    "BA-23": case(fired(GATE, [hook(FINE, name="a"), hook(PERHAPS, name="b")], ask(), *names("a", "b"))),
    "BA-24": refused("subagent_start"),
    "BA-25": refused("pre_compact"),
    "BA-26": refused("config_change"),
    "BA-27": heard_of("subagent_start"),
    "BA-28": ignored("subagent_stop", deny()),
    "BA-29": matched("Bash", "Bash", fires=True, unlike="Read"),
    "BA-30": matched("Bash", "Read", fires=False, unlike="Bash"),
    "BA-31": matched("^Read.*", "ReadFile", fires=True, unlike="Write"),
    "BA-32": matched("^Read.*", "Write", fires=False, unlike="ReadFile"),
    "BA-33": matched(None, "any tool", fires=True),
    "BA-34": case(
        fired(
            "stop", [hook(CRASH, "stop", "a"), hook(adds(survivor=True), "stop", "b")], ok("stop", survivor=True),
            *names("a", "b"),
        )
    ),
    "BA-35": case(fired("stop", [hook(throws(":thrown"), "stop")], ok("stop"), *names("hook"))),
    "BA-36": crashed(CRASH, "broken"),
    "BA-37": crashed(throws("thrown"), "thrown"),
    "BA-38": case(*(fired(event, [hook(CRASH, event)], deny(CRASHED), *names("hook")) for event in BLOCKING)),
    "BA-39": case(*(fired(event, [hook(CRASH, event)], ok(event), *names("hook")) for event in NOTIFYING)),
    "BA-40": case(
        fired(GATE, [hook(answers(":whatever"), name="a"), hook(FINE, name="b")], deny(ANY), *names("a")),
        fired(GATE, [hook(answers(tuple_(":allow", "why")), name="a")], deny(ANY), *names("a")),
        fired(GATE, [hook(answers(deny(42)), name="a")], deny(ANY), *names("a")),
        # What BeamAgent's own examples answer is no opinion here too.
        fired(GATE, [hook(answers(":ok"), name="a")], ok(), *names("a")),
    ),
    "BA-41": case(
        fired(
            GATE, [hook(adds(sanitized=True), name="a"), hook(FINE, name="b")], ok(old="kept", sanitized=True),
            calls("a", context(old="kept")), calls("b", context(old="kept", sanitized=True)), old="kept",
        )
    ),
    "BA-42": stopped(NO, deny()),
    "BA-43": stopped(PERHAPS, ask()),
    "BA-44": stopped(CRASH, deny(CRASHED)),
    "BA-45": case(
        fired(
            GATE, [hook(adds(a=1), name="a"), hook(adds(b=":two"), name="b"), hook(adds(c=[tuple_(3)]), name="c")],
            ok(a=1, b=":two", c=[tuple_(3)]), *names("a", "b", "c"),
        )
    ),
    "BA-46": case(
        fired(
            "user_prompt_submit",
            [hook(answers(tuple_(":ok", REWRITTEN)), "user_prompt_submit", "a"), hook(FINE, "user_prompt_submit", "b")],
            ok("user_prompt_submit", prompt="[checked] hello"),
            calls("a", context("user_prompt_submit")),
            calls("b", context("user_prompt_submit", prompt="[checked] hello")),
        )
    ),
    "BA-47": threaded(),
    "BA-48": threaded(NO),
    "BA-49": threaded(PERHAPS),
    "BA-50": threaded(CRASH),
    "BA-51": unchanged(None),
    "BA-52": unchanged({}),
    "BA-53": case(fired(GATE, [ON_STOP], ok()), fired("stop", [ON_STOP], ok("stop", stopped=":seen"))),
    "BA-54": case(
        fired(
            GATE, [hook(adds(a=1), name="a"), hook(adds(b=2), name="b", matcher="Write"), hook(adds(c=3), name="c")],
            ok(a=1, c=3), *names("a", "c"),
        )
    ),
    "BA-55": case(
        fired(
            GATE, [hook(answers(tuple_(":ok", without(":dangerous"))), name="a"), hook(FINE, name="b")], AUDITED,
            calls("a", context(dangerous=":rm")), calls("b", context()), dangerous=":rm",
        )
    ),
    "BA-56": globally(done("ensure_global_table"), listed()),
    "BA-57": globally(
        done("ensure_global_table"), *everywhere(ONE), done("ensure_global_table"), listed(pre_tool_use=1)
    ),
    "BA-58": globally(*everywhere(ON_STOP), given({":stop": [part(**keys(event=":stop"))]}, "global_registry")),
    "BA-59": globally(*everywhere(ONE), listed(pre_tool_use=1)),
    "BA-60": globally(*everywhere(ONE, OTHER), listed(pre_tool_use=2)),
    "BA-61": globally(*everywhere(ONE, ON_STOP), listed(pre_tool_use=1, stop=1)),
    "BA-62": globally(
        *everywhere(ONE), fired(GATE, None, deny("everywhere")), *nowhere(ONE), listed(),
        fired(GATE, None, ok()),
    ),
    "BA-63": globally(
        *everywhere(ONE, OTHER), *nowhere(ONE),
        listed(pre_tool_use=1), fired(GATE, None, ok(other=":seen"), *names("other")),
    ),
    "BA-64": globally(
        *everywhere(OTHER), *nowhere(ONE, ONE),
        listed(pre_tool_use=1),
    ),
    "BA-65": globally(*nowhere(ONE), listed()),
    "BA-66": globally(*everywhere(ONE), *nowhere(ONE), listed()),
    "BA-67": globally(listed()),
    "BA-68": globally(
        *everywhere(hook(trail("global"), "stop", "global")),
        fired(
            "stop", [hook(trail("session"), "stop", "session")], ok("stop", trail=["global", "session"]),
            *names("global", "session"),
        ),
    ),
    "BA-69": globally(
        *everywhere(OTHER), *(fired(GATE, nothing, ok(other=":seen")) for nothing in (None, ":undefined"))
    ),
    "BA-70": globally(*everywhere(OTHER), fired(GATE, {}, ok(other=":seen"), *names("other"))),
    "BA-71": unchanged([]),
    "BA-72": globally(
        *everywhere(ONE), fired(GATE, [hook(FINE, name="session")], deny("everywhere"), *names("one"))
    ),
    "BA-73": globally(
        *everywhere(hook(PERHAPS, name="one")), fired(GATE, [hook(NO, name="session")], ask(), *names("one"))
    ),
    "BA-74": listening(*everywhere(ONE), *told("hooks")),
    "BA-75": listening(*everywhere(ONE), *nowhere(ONE), *told("hooks", "hooks")),
    "BA-76": case(bus("ensure_table"), bus("subscribers", gives=[])),
    "BA-77": listening(bus("notify", ":hooks"), bus("ensure_table"), bus("notify", ":hooks"), *told("hooks", "hooks")),
    "BA-79": listening(bus("subscribers", gives=[LISTENER])),
    "BA-80": case(
        bus("subscribe", LISTENER, process="main"), bus("subscribers", gives=[LISTENER]),
        bus("unsubscribe", LISTENER, process="main"), bus("subscribers", gives=[]),
    ),
    "BA-81": listening(bus("subscribe"), bus("subscribers", gives=[LISTENER]), bus("notify", ":hooks"), *told("hooks")),
    "BA-82": listening(bus("unsubscribe"), bus("subscribers", gives=[]), bus("notify", ":hooks"), *told()),
    "BA-83": case(bus("unsubscribe"), bus("unsubscribe", process="main")),
    "BA-84": listening(bus("notify", ":hooks"), *told("hooks")),
    "BA-85": listening(*(bus("notify", f":{type_}") for type_ in MIXED), *told(*MIXED)),
    "BA-86": listening(
        bus("subscribe", process="other"),
        step(call("Process.exit", {"$process": "other"}, ":kill", process="other"), gives=part(raised=ANY)),
        bus("notify", ":hooks"), bus("subscribers", gives=[LISTENER]), *told("hooks"),
    ),
    "BA-87": listening(bus("notify", ":skills"), *told("skills")),
    "BA-89": listening(
        bus("notify", ":hooks"), bus("notify", ":tools"),
        step(call("Kernel.-", {"$call": f"{BUS}.version", "with": []}, {"$kept": "version"}), gives=gave(2)),
    ),
    "BA-91": case(*(made(event, keys(event=f":{event}", callback=ANY)) for event in some(EVENTS))),
    "BA-92": case(
        *(
            given({f":{event}": [part(**keys(event=f":{event}"))]}, "register_hook", hook(FINE, event), NEW)
            for event in some(EVENTS)
        )
    ),
    "BA-93": case(*(given(None, "build_registry", nothing) for nothing in ([], None, ":undefined"))),
    "BA-94": case(*(fired(event, ":undefined", ok(event)) for event in some(EVENTS))),
    "BA-95": heard_of(*some(NOTIFYING)),
    "BA-96": case(
        *(fired(GATE, [hook(REASON_OF_INPUT)], deny(text), tool_input={"reason": text}) for text in REASONS)
    ),
    "BA-97": case(
        *(
            fired(GATE, [hook(NO, matcher="^Bash$")], deny() if tool == "Bash" else ok(tool_name=tool), tool_name=tool)
            for tool in TOOLS
        )
    ),
    "BA-G1": case(fired(GATE, [hook(CRASH, name="a"), hook(FINE, name="b")], deny(CRASHED), *names("a"))),
}  # fmt: skip

BEGUN = "a node begins once, and the driver's has played other rows before; its bus counts from 0"
WIRE: Final[dict[str, str]] = dict.fromkeys(("BA-78", "BA-88", "BA-90"), BEGUN)

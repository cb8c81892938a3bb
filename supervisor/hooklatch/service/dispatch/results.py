"""The fires of what a tool gave: first the gate that may change or withhold it, then the event that tells what ran.

A host reports both by one document.  Where no hook is on the gate, only the second is fired.  Where the host also tells
what its model is about to read (post_tool_batch), a result that another hook has given back ends the run unread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, cast

import msgspec
import trio

from hooklatch.core.messages import FireDecision
from hooklatch.core.refusal_texts import WITHHELD
from hooklatch.hosts.fitting import decode_patch, explain_decision
from hooklatch.hosts.host import CONTEXT_WAIT, HookOutput, Host, HostEvent, HostFire
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.fires import CallReport, DecisionAdapter
from hooklatch.service.registry.sessions import AgentSession

__all__ = ["HeldResults", "fire_result"]

MAX_HELD: Final = 1024  # results
MAX_LINES: Final = 64  # of each
MAX_CHANGED: Final = 1024  # lines of a result that are looked for in the text of what is left of it
MIN_LINE: Final = 6  # characters; a shorter line may stand anywhere


class HeldResults:
    """The lines that guards have taken out of results, by the host and its id of the call."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], list[str]] = {}

    def keep(self, host: str, call_id: object, given: object, decision: FireDecision) -> None:
        """Note which lines a result has no more, by the decision on it."""
        answer = decode_patch(decision)["tool_response"] if decision.patch else WITHHELD + explain_decision(decision)
        lines_left = set(list_lines(answer))  # looked up first: a text is searched for the few that are not there
        left = "\n".join(lines_left)
        changed = (line for line in list_lines(given) if len(line) >= MIN_LINE and line not in lines_left)
        gone = (line for line in islice(changed, MAX_CHANGED) if line not in left)
        if lines := list(islice(gone, MAX_LINES)):
            self.lines[host, str(call_id)] = lines
        if len(self.lines) > MAX_HELD:
            del self.lines[next(iter(self.lines))]

    def adapt(self, host: Host, native: HostEvent, adapt: DecisionAdapter) -> DecisionAdapter:
        """Return the adapter of what a model is about to read: the run ends where a result has lines again."""
        calls = native.decode_value("tool_calls") if self.lines else None
        tool = self.find_given_back(host.name, calls)
        return end_unread(adapt, tool) if tool else adapt

    def find_given_back(self, host: str, calls: object) -> str:
        """Return the tool whose result has again what was taken out of it, "" if there is none."""
        for call in cast("list[object]", calls) if isinstance(calls, list) else ():
            each = cast("dict[str, object]", call) if isinstance(call, dict) else dict[str, object]()
            gone = self.lines.pop((host, str(each.get("tool_use_id"))), ())
            text = "\n".join(list_lines(each.get("tool_response"))) if gone else ""
            if any(line in text for line in gone):
                return str(each.get("tool_name"))
        return ""


def list_lines(value: object) -> Iterator[str]:
    """Yield the lines of all texts in a value."""
    if isinstance(value, str):
        yield from map(str.strip, value.splitlines())
    elif isinstance(value, list | dict):
        table = cast("dict[str, object] | list[object]", value)
        for below in table.values() if isinstance(table, dict) else table:
            yield from list_lines(below)


def end_unread(adapt: DecisionAdapter, tool: str) -> DecisionAdapter:
    """Return an adapter that ends the run, since another hook gave back what was taken out of a tool's result."""
    reason = (
        f"another hook gave the model what was withheld by hooklatch of the result of {tool}, so the run ends unread"
    )

    def adapt_ending(decision: FireDecision) -> FireDecision:
        return adapt(msgspec.structs.replace(decision, verdict="halt", cause="policy", reason=reason))

    return adapt_ending


async def fire_result(
    dispatcher: Dispatcher,
    host: Host,
    native: HostEvent,
    request: HostFire,
    session: AgentSession | None,
    make_adapter: Callable[[Host, HostEvent], DecisionAdapter],
    *,
    report: CallReport,
    is_gated: bool,
    held: HeldResults,
) -> HookOutput:
    """Fire both events, and return the host's output for both decisions.

    Raises:
        RpcError: the gate cannot be fired.
    """
    after, params, payload, decision = native.spec.after or native.spec, request.params, request.payload, None
    if is_gated:
        firing = dispatcher.fire(params, session, adapt_decision=make_adapter(host, native), payload=payload)
        decision = await firing
        is_told = any(
            spec.event == "post_tool_batch" for spec in host.events.values()
        )  # else nothing is taken out again
        if is_told and (decision.verdict != "pass" or decision.patch):
            held.keep(host.name, params.call_id, native.decode_value(host.find_result_key(native)), decision)
    reported = msgspec.structs.replace(native, spec=after)
    adapt, decided, answers = make_adapter(host, reported), trio.Event(), list[FireDecision]()

    def take(answer: FireDecision) -> FireDecision:
        answers.append(adapt(answer))
        decided.set()
        return answers[0]

    params = msgspec.structs.replace(params, event=request.after, timeout=None)
    receipt = dispatcher.fire_later(params, session, adapt_decision=take, payload=payload, report=report)
    if after.kind == "context" and receipt["accepted"]:
        with trio.move_on_after(CONTEXT_WAIT):  # its hooks go on, but no agent waits longer for what they say
            await decided.wait()
    output = host.render(reported, answers[0]) if answers else host.silence(native.name)
    return output if decision is None else host.express(native, decision, output)

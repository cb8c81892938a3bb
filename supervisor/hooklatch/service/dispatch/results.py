"""The fires of what a tool gave: first the gate that may change or withhold it, then the event that tells what ran.

A host reports both by one document.  Where no hook is on the gate, only the second is fired.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from hooklatch.core.messages import FireDecision
from hooklatch.hosts.host import CONTEXT_WAIT, HookOutput, Host, HostEvent, HostFire
from hooklatch.service.dispatch.dispatcher import Dispatcher
from hooklatch.service.dispatch.fires import CallReport, DecisionAdapter
from hooklatch.service.registry.sessions import AgentSession

__all__ = ["fire_result"]


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
) -> HookOutput:
    """Fire both events, and return the host's output for both decisions.

    Raises:
        RpcError: the gate cannot be fired.
    """
    after, params, payload, decision = native.spec.after or native.spec, request.params, request.payload, None
    if is_gated:
        firing = dispatcher.fire(params, session, adapt_decision=make_adapter(host, native), payload=payload)
        decision = await firing
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

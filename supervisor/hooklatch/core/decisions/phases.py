"""The four models as state machines: gate, notify, amend, claim.  Knows their rules; knows no event by name.

A gate amends, then judges, as admission control does.  It goes through its hooks in three phases.  In each, a hook is
called if it matches the payload at its turn and it is due in the phase:

phase     goes through                      calls a match that       shows it            a patch
amending  marked hooks, the least trusted   (each once)              what the amender    applies at once
          layer first                                                before made
judging   all hooks, in firing order        was not called yet       what amenders made, applies at once, or is merged
                                                                     and guards so far   at the end, as the axes say
settling  all hooks, in firing order; only  has not seen exactly     the final payload   ends it: `unsettled`
          if judging changed the payload    this payload

In every phase deny, halt or a failure ends the chain (a dialect's axes may say that refusals do not, or that an ask
ends the judging), and after a refusal no patch is left.  An ask is kept, since a later deny overrides it.  An allow
counts only for exactly the payload that runs.  A hook has seen the payload it was given, and what its own patch made of
that.  Of several answers of a hook the last one counts.

It follows that every hook that matches the payload that runs was called, and every unmarked one has seen exactly that
payload.  If a hook changes it after an amender of a more trusted layer, that amender is called again; the change never
undoes the amender's.  A marked hook is called once, even if a later one changed what it had seen: only a guard is sure
to judge the final payload.

notify                all at once, or in order if the flow is sequential; nothing refuses, a halt is a wish
amend                 in order; first_wins on the original, or last_wins threaded
claim                 in order until one claims
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, assert_never

import msgspec

from hooklatch.core.decisions.call import Call
from hooklatch.core.decisions.combining import merge_first, merge_last
from hooklatch.core.decisions.decision import Machine, apply, failure_text
from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.hooks.snapshots import Chain, Selection
from hooklatch.core.messages import Cause, DecisionVerdict, Outcome
from hooklatch.core.payload import Payload
from hooklatch_worker.author.verdicts import Answer

__all__ = ["firing_order", "start"]


def start(chain: Chain, selection: Selection, payload: Payload, context: dict[str, Any]) -> Machine:
    """Begin a fire of a chain of hooks, of which those in the selection match the present payload."""
    match chain.spec.model:
        case "gate":
            return Gate(chain, selection, payload, context)
        case "notify":
            return Notify(chain.spec, selection.hooks, payload, context)
        case "amend":
            return Amend(chain.spec, selection.hooks, payload, context)
        case "claim":
            return Claim(chain.spec, selection.hooks, payload, context)
        case _:
            assert_never(chain.spec.model)


def firing_order(chain: Chain, selection: Selection) -> tuple[Hook, ...]:
    """Return the selected hooks in the order in which they are called: at a gate those that amend come first."""
    if not chain.spec.is_gate:
        return selection.hooks
    amenders = (hook for hook in chain.amenders if hook in selection.matching)
    return (*amenders, *(hook for hook in selection.hooks if not hook.amends))


NO_VERSION = -1  # for an answer that is not about the current payload


class Phase(Enum):
    """What a gate is doing: see the table above."""

    AMENDING = 1
    JUDGING = 2
    SETTLING = 3


class Gate(Machine):
    def __init__(self, chain: Chain, selection: Selection, payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(chain.spec, payload, context)
        self._chain = chain
        self._original = payload
        self._amended = payload
        self._matching = selection.matching
        self._seen: dict[Hook, int] = {}
        self._changed_by: Hook | None = None
        self._patches: dict[int, dict[str, msgspec.Raw]] = {}  # by each hook's index, if they are merged
        self._merged_before: dict[str, msgspec.Raw] = {}  # by judging; kept while settling if the first patch wins
        self._refusal: tuple[DecisionVerdict, Hook | None, str, Cause] | None = None
        self._asked: Call | None = None
        self._is_settled = False
        self._phase = Phase.AMENDING if chain.amenders else Phase.JUDGING
        self._walk = iter(chain.amenders or chain.hooks)

    def next_calls(self) -> Sequence[Call]:
        if self._asked is not None:
            return ()
        while not self._is_settled:
            for hook in self._walk:
                if hook in self._matching and (hook not in self._seen or self._is_due_again(hook)):
                    return (self._ask(hook),)
            self._end_phase()
        return ()

    def _is_due_again(self, hook: Hook) -> bool:
        """Return whether a hook that was called is due once more: it has not seen exactly the final payload."""
        return self._phase is Phase.SETTLING and self._seen[hook] != self.payload.version

    def _ask(self, hook: Hook) -> Call:
        index, payload = self._chain.indices[hook], self.payload
        self._seen[hook] = payload.version
        if self._patches:
            self._patches.pop(index, None)  # a hook that is called again answers anew
        merged = self._merged() if self._patches or self._merged_before else None
        self._asked = Call(index, hook, payload, self.context, merged, self._phase is Phase.SETTLING)
        return self._asked

    def receive(self, call: Call, outcome: Outcome) -> None:
        """Take the outcome of the call under way; any other one comes too late to count."""
        if call is not self._asked:
            return
        self._asked = None
        super().receive(call, outcome)

    def _end_phase(self) -> None:
        if self._phase is Phase.AMENDING:
            self._amended = self.payload
            self._begin(Phase.JUDGING)
            return
        if self._patches and self._refusal is None:
            self._take_merged()
        if self._is_settled:
            return
        if self._refusal is not None:
            self._end(*self._refusal)
        elif self._phase is Phase.JUDGING and self.payload is not self._amended:
            self._begin(Phase.SETTLING)
        else:
            self._finish()

    def _begin(self, phase: Phase) -> None:
        self._phase = phase
        self._walk = iter(self._chain.hooks)

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.verdict in ("deny", "halt"):
            self._refuse("deny" if answer.verdict == "deny" else "halt", call.hook, answer.reason)
        elif answer.verdict == "ask" and self._phase is not Phase.AMENDING and "ask" in self.spec.ends_at:
            # Amenders' changes stay; guards' changes were not judged by all of them.  While amending, an ask ends
            # nothing: the less trusted answer first there, and must not keep the others from answering.
            self._end("ask", call.hook, answer.reason, left=self._amended)
        elif answer.patch:
            self._apply(call, answer.patch)

    def _apply(self, call: Call, patch: dict[str, msgspec.Raw]) -> None:
        if self._is_merged(call.hook):
            self._patches[call.index] = patch
            self._changed_by = call.hook
            if apply(self.payload, patch) is not self.payload:
                self.opinions[
                    call.index
                ].version = NO_VERSION  # its answer is about the merged payload, which does not exist yet
            return
        result = apply(self.payload, patch)
        if isinstance(result, str):
            self.fail(call, "protocol", result)
        elif result is not self.payload and self._phase is Phase.SETTLING:
            self.fail(call, "unsettled", self._unsettled(call.hook))
        elif result is not self.payload:
            self._change(result, call.hook)
            self._made(call.index)

    def _is_merged(self, hook: Hook) -> bool:
        """Return whether a patch is merged with all others; an amender's applies at once, or is too late."""
        is_own = self._phase is Phase.AMENDING or (self._phase is Phase.SETTLING and hook.amends)
        return self.spec.view == "original" and not is_own

    def _merged(self) -> dict[str, msgspec.Raw]:
        if not self._patches:
            return self._merged_before
        merged = dict(self._merged_before)
        merge = merge_first if self.spec.combine == "first_wins" else merge_last
        for index in sorted(self._patches):
            merge(merged, self._patches[index])
        return merged

    def _take_merged(self) -> None:
        """Apply the merged patches of hooks that saw the same payload; while settling, they must change nothing."""
        merged, by = self._merged(), self._changed_by
        assert by is not None
        result = apply(self.payload, merged)
        if isinstance(result, str):
            self._refuse("deny", by, failure_text("protocol", result, by), "protocol")
        elif result is not self.payload and self._phase is Phase.SETTLING:
            self._refuse("deny", by, failure_text("unsettled", self._unsettled(by), by), "unsettled")
        elif result is not self.payload:
            makers = [index for index, patch in self._patches.items() if self._makes(patch, merged, result)]
            self._change(result, by)
            for index in makers:
                self._made(index)
        if self.spec.combine == "first_wins":
            self._merged_before = merged

    def _makes(self, patch: dict[str, msgspec.Raw], merged: dict[str, msgspec.Raw], result: Payload) -> bool:
        """Return whether one hook's patch alone has the same effect on the payload as all of them together."""
        alone = apply(self.payload, patch)
        return isinstance(alone, Payload) and apply(alone, merged) is alone and apply(result, patch) is result

    def _change(self, result: Payload, by: Hook) -> None:
        """Make another payload the current one, and match again."""
        self.payload = result
        self._changed_by = by
        selection = self._chain.select(result)
        self._matching = selection.matching
        if selection.is_blind:
            message = f"{self.spec.match} is not a string after its change, or too long, so hooks cannot be matched"
            self._end("deny", by, failure_text("payload", message, by), "payload")

    def _made(self, index: int) -> None:
        """Note that a hook has seen what its own patch made of the payload, and that its answer is about that."""
        opinion = self.opinions[index]
        self._seen[opinion.hook] = opinion.version = self.payload.version

    def _unsettled(self, hook: Hook) -> str:
        """Return what happened, and what to do: the hook whose change came too late can be marked as an amender."""
        late = hook if not hook.amends else self._changed_by
        way_out = ""
        if late is not None and not late.amends:
            who = "it" if late is hook else late.name
            way_out = f"; mark {who} amends = true, so that its change is made once, before the guards judge"
        return f"it changed the payload again after the guards had been called again{way_out}"

    def fail(self, call: Call, cause: Cause, message: str) -> None:
        self._refuse("deny", call.hook, failure_text(cause, message, call.hook), cause)

    def _refuse(self, verdict: DecisionVerdict, hook: Hook | None, reason: str, cause: Cause = "policy") -> None:
        """Refuse now, or after the last hook if a refusal does not end the chain; the first refusal counts."""
        if verdict in self.spec.ends_at:
            self._end(verdict, hook, reason, cause)
        elif self._refusal is None:
            self._refusal = verdict, hook, reason, cause

    def _end(
        self,
        verdict: DecisionVerdict,
        hook: Hook | None,
        reason: str,
        cause: Cause = "policy",
        *,
        left: Payload | None = None,
    ) -> None:
        self._is_settled = True
        self.payload = left or self._original
        self.settle(verdict, hook, reason, cause)

    def _finish(self) -> None:
        self._is_settled = True
        final = self.payload.version
        for opinion in self.opinions_in_order():
            if opinion.answer.verdict == "ask":
                self.settle("ask", opinion.hook, opinion.answer.reason)
                return
        for opinion in self.opinions_in_order():
            # An explicit allow of another input than the one that will run does not count.
            if opinion.answer.verdict == "allow" and opinion.version == final:
                self.settle("allow", opinion.hook, opinion.answer.reason or None)
                return
        self.settle("pass")

    def patch(self) -> dict[str, msgspec.Raw] | None:
        if not self.payload.version:
            return None
        before = self._original.fields
        return {key: raw for key, raw in self.payload.fields.items() if before.get(key) is not raw}


class Notify(Machine):
    def __init__(self, spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(spec, payload, context)
        self._original_context = context
        self._calls = [Call(index, hook, payload, context) for index, hook in enumerate(hooks)]
        self.settle("pass")

    def next_calls(self) -> Sequence[Call]:
        count = len(self._calls) if self.spec.flow == "concurrent" else 1
        calls, self._calls = self._calls[:count], self._calls[count:]
        if self.spec.flow == "sequential":
            return [msgspec.structs.replace(call, context=self.context) for call in calls]
        return calls

    def accept(self, call: Call, answer: Answer) -> None:
        first = min((i for i, o in self.opinions.items() if o.answer.verdict == "halt"), default=None)
        if answer.last or (answer.verdict == "halt" and self.spec.flow == "sequential"):
            self._calls.clear()
        if answer.verdict == "halt" and first == call.index:
            self.settle("halt", call.hook, answer.reason)
        if answer.context:
            self.context = self._merged_context()

    def _merged_context(self) -> dict[str, Any]:
        context = self._original_context
        for index in sorted(self.opinions):
            context = {**context, **(self.opinions[index].answer.context or {})}
        return context


class Amend(Machine):
    def __init__(self, spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(spec, payload, context)
        self._waiting = list(enumerate(hooks))
        self._waiting.reverse()
        self._merged: dict[str, msgspec.Raw] = {}
        self.settle("pass")

    def next_calls(self) -> Sequence[Call]:
        if not self._waiting:
            return ()
        index, hook = self._waiting.pop()
        return (Call(index, hook, self.payload, self.context, merged=dict(self._merged) or None),)

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.patch:
            self._merge(answer.patch)
        if answer.verdict == "halt":
            self.settle("halt", call.hook, answer.reason)
        if answer.last or answer.verdict == "halt":
            self._waiting.clear()

    def _merge(self, patch: dict[str, msgspec.Raw]) -> None:
        if self.spec.combine == "first_wins":
            merge_first(self._merged, patch)
        else:
            merge_last(self._merged, patch)
        if self.spec.view == "threaded":
            result = apply(self.payload, patch)
            if isinstance(result, Payload):
                self.payload = result

    def patch(self) -> dict[str, msgspec.Raw] | None:
        return self._merged or None


class Claim(Machine):
    def __init__(self, spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(spec, payload, context)
        self._waiting = list(enumerate(hooks))
        self._waiting.reverse()
        self._value: msgspec.Raw | None = None
        self.settle("pass")

    def next_calls(self) -> Sequence[Call]:
        if not self._waiting:
            return ()
        index, hook = self._waiting.pop()
        return (Call(index, hook, self.payload, self.context),)

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.verdict == "claim":
            self._value = answer.value
            self.settle("claim", call.hook, answer.reason or None)
        if answer.last or answer.verdict == "claim":
            self._waiting.clear()

    def value(self) -> msgspec.Raw | None:
        return self._value

"""The four models as machines: gate, notify, amend, claim.  Knows their rules; knows no event by name.

gate, first pass      each matching hook in order, shown the payload as patched so far
                      deny, halt or a failure ends it; an ask is kept, since a later deny overrides it
                      (axes of a dialect: each shown the original and patches merged; refusals that end no chain)
gate, second pass     when the payload has changed: matching is done again on the final one, and every matching hook
                      that has not seen exactly that version is asked once more; a further change is `unsettled`
notify                all at once, or in order where the flow is sequential; nothing refuses, a halt is a wish
amend                 in order; first_wins on the original, or last_wins threaded
claim                 in order until one claims
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgspec

from hooklatch.core.catalogue import EventSpec
from hooklatch.core.combining import merge_first, merge_last
from hooklatch.core.decision import Fire, StartCall, apply, failure_text
from hooklatch.core.messages import CallOutcome, Cause, DecisionVerdict
from hooklatch.core.payload import Payload
from hooklatch.core.registry import Hook, Selection
from hooklatch_worker.verdicts import Answer

__all__ = ["start"]

UNSETTLED = "it changed the payload again after the guards had been asked again"
Matching = Callable[[Payload], Selection]


def start(spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any], rematch: Matching) -> Fire:
    """Begin a fire on the hooks that match its payload; `rematch` matches again on a patched one."""
    match spec.model:
        case "gate":
            return Gate(spec, hooks, payload, context, rematch)
        case "notify":
            return Notify(spec, hooks, payload, context)
        case "amend":
            return Amend(spec, hooks, payload, context)
        case "claim":
            return Claim(spec, hooks, payload, context)
        case _:
            assert_never(spec.model)


class Gate(Fire):
    def __init__(
        self,
        spec: EventSpec,
        hooks: Sequence[Hook],
        payload: Payload,
        context: dict[str, Any],
        rematch: Matching,
    ) -> None:
        super().__init__(spec, payload, context)
        self._original = payload
        self._rematch = rematch
        self._waiting = [(index, hook) for index, hook in enumerate(hooks)]
        self._waiting.reverse()
        self._indices = {hook: index for index, hook in enumerate(hooks)}
        self._seen: dict[Hook, int] = {}
        self._changed_by: Hook | None = None
        self._merged: dict[str, msgspec.Raw] = {}
        self._refusal: tuple[DecisionVerdict, Hook | None, str, Cause] | None = None
        self._asked: StartCall | None = None
        self._is_second_pass = False
        self._is_settled = False

    def next_calls(self) -> Sequence[StartCall]:
        if self._asked is not None:
            return ()
        if not self._waiting and not self._is_settled:
            self._end_pass()
        if not self._waiting or self._is_settled:
            return ()
        index, hook = self._waiting.pop()
        self._seen[hook] = self.payload.version
        self._asked = StartCall(
            index, hook, self.payload, self.context, dict(self._merged) or None, reinvoked=self._is_second_pass
        )
        return (self._asked,)

    def receive(self, call: StartCall, outcome: CallOutcome) -> None:
        """Take what came of the call that is out; any other one is an answer too late to count."""
        if call is not self._asked:
            return
        self._asked = None
        super().receive(call, outcome)

    def _end_pass(self) -> None:
        if self._merged:
            self._take_merged()
        if self._refusal is not None and not self._is_settled:
            self._end(*self._refusal)
        elif self.payload.version and not self._is_second_pass:
            self._begin_second_pass()
        if not self._waiting and not self._is_settled:
            self._finish()

    def _take_merged(self) -> None:
        """Put in force what the hooks, each shown the same, have merged; the second time it must come to the same.

        Where the first patch of a key wins, it also wins over one that a hook repeats when asked again.
        """
        result = apply(self.payload, self._merged)
        if isinstance(result, str):
            self._refuse("deny", self._changed_by, failure_text("protocol", result, self._changed_by), "protocol")
        elif result is not self.payload and self._is_second_pass:
            self._refuse("deny", self._changed_by, failure_text("unsettled", UNSETTLED, self._changed_by), "unsettled")
        else:
            self.payload = result
        if self.spec.combine != "first_wins":
            self._merged = {}

    def _begin_second_pass(self) -> None:
        self._is_second_pass = True
        selection = self._rematch(self.payload)
        if selection.is_blind:
            self._end_blind()
            return
        for hook in selection.hooks:
            if self._seen.get(hook) != self.payload.version:
                index = self._indices.setdefault(hook, len(self._indices))
                self._waiting.append((index, hook))
        self._waiting.reverse()

    def _end_blind(self) -> None:
        message = f"{self.spec.match} is no string after its change, or too long, so matching is not possible"
        self._end("deny", self._changed_by, failure_text("payload", message, self._changed_by), "payload")

    def accept(self, call: StartCall, answer: Answer) -> None:
        if answer.verdict in ("deny", "halt"):
            self._refuse("deny" if answer.verdict == "deny" else "halt", call.hook, answer.reason)
        elif answer.verdict == "ask" and "ask" in self.spec.ends_at:
            self._end("ask", call.hook, answer.reason)
        elif answer.patch:
            self._apply(call, answer.patch)

    def _apply(self, call: StartCall, patch: dict[str, msgspec.Raw]) -> None:
        if self.spec.view == "original":
            self._changed_by = call.hook
            merge = merge_first if self.spec.combine == "first_wins" else merge_last
            merge(self._merged, patch)
            return
        result = apply(self.payload, patch)
        if isinstance(result, str):
            self.fail(call, "protocol", result)
        elif result is not self.payload and self._is_second_pass:
            self.fail(call, "unsettled", UNSETTLED)
        elif result is not self.payload:
            self.payload = result
            self._changed_by = call.hook

    def fail(self, call: StartCall, cause: Cause, message: str) -> None:
        self._refuse("deny", call.hook, failure_text(cause, message, call.hook), cause)

    def _refuse(self, verdict: DecisionVerdict, hook: Hook | None, reason: str, cause: Cause = "policy") -> None:
        """Refuse now, or, where refusals end no chain, when every hook has had its say; the first one counts."""
        if verdict in self.spec.ends_at:
            self._end(verdict, hook, reason, cause)
        elif self._refusal is None:
            self._refusal = verdict, hook, reason, cause

    def _end(self, verdict: DecisionVerdict, hook: Hook | None, reason: str, cause: Cause = "policy") -> None:
        self._is_settled = True
        self.payload = self._original
        self.settle(verdict, hook, reason, cause)

    def _finish(self) -> None:
        self._is_settled = True
        final = self.payload.version
        opinions = [self.opinions[index] for index in sorted(self.opinions)]
        for opinion in opinions:
            if opinion.answer.verdict == "ask":
                self.settle("ask", opinion.hook, opinion.answer.reason)
                return
        for opinion in opinions:
            # An explicit allow of another input than the one that will run is worth nothing.
            if opinion.answer.verdict == "allow" and opinion.version == final:
                self.settle("allow", opinion.hook, opinion.answer.reason or None)
                return
        self.settle("pass")

    def patch(self) -> dict[str, msgspec.Raw] | None:
        if not self.payload.version:
            return None
        before = self._original.fields
        return {key: raw for key, raw in self.payload.fields.items() if before.get(key) is not raw}


class Notify(Fire):
    def __init__(self, spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(spec, payload, context)
        self._original_context = context
        self._calls = [StartCall(index, hook, payload, context) for index, hook in enumerate(hooks)]
        self.settle("pass")

    def next_calls(self) -> Sequence[StartCall]:
        count = len(self._calls) if self.spec.flow == "concurrent" else 1
        calls, self._calls = self._calls[:count], self._calls[count:]
        if self.spec.flow == "sequential":
            return [msgspec.structs.replace(call, context=self.context) for call in calls]
        return calls

    def accept(self, call: StartCall, answer: Answer) -> None:
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


class Amend(Fire):
    def __init__(self, spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(spec, payload, context)
        self._waiting = list(enumerate(hooks))
        self._waiting.reverse()
        self._merged: dict[str, msgspec.Raw] = {}
        self.settle("pass")

    def next_calls(self) -> Sequence[StartCall]:
        if not self._waiting:
            return ()
        index, hook = self._waiting.pop()
        return (StartCall(index, hook, self.payload, self.context, merged=dict(self._merged) or None),)

    def accept(self, call: StartCall, answer: Answer) -> None:
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


class Claim(Fire):
    def __init__(self, spec: EventSpec, hooks: Sequence[Hook], payload: Payload, context: dict[str, Any]) -> None:
        super().__init__(spec, payload, context)
        self._waiting = list(enumerate(hooks))
        self._waiting.reverse()
        self._value: msgspec.Raw | None = None
        self.settle("pass")

    def next_calls(self) -> Sequence[StartCall]:
        if not self._waiting:
            return ()
        index, hook = self._waiting.pop()
        return (StartCall(index, hook, self.payload, self.context),)

    def accept(self, call: StartCall, answer: Answer) -> None:
        if answer.verdict == "claim":
            self._value = answer.value
            self.settle("claim", call.hook, answer.reason or None)
        if answer.last or answer.verdict == "claim":
            self._waiting.clear()

    def value(self) -> msgspec.Raw | None:
        return self._value

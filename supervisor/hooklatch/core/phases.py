"""The four models as state machines: gate, notify, amend, claim.  Knows their rules; knows no event by name.

A gate amends, then judges, as admission control does.  It goes through its hooks in three phases.  In each, a hook is
called if it matches the payload at its turn and it is due in the phase:

phase     goes through                      calls a match that       with the payload    a patch
amending  marked hooks, the least trusted   (each once)              of the amender      applies at once
          layer first                                                before
judging   all hooks, in firing order        was not called yet       of the amenders     applies at once, or is merged
                                                                     and guards so far   at the end, as the axes say
settling  all hooks, in firing order; only  has not seen exactly     that runs           ends it: `unsettled`
          if judging changed the payload    this payload

In every phase deny, halt or a failure ends the chain (a dialect's axes may say that refusals do not, or that an ask
ends the judging), and a refusal drops all patches.  An ask is kept, since a later deny overrides it.  An allow counts
only for exactly the payload that runs.  A hook has seen the payload that it was given, and the result of its own patch.
If a hook answers several times, the last answer counts.

Hooks are called one at a time, except that neighbours marked `only_judges` are called together.  They cannot change
another hook's payload or context, since such an answer is illegal for them.  Their outcomes count in firing order.

It follows that every hook that matches the payload that runs was called, and every unmarked one has seen exactly that
payload.  If a hook changes it after an amender of a more trusted layer, that amender is called again, so the change
never undoes the amender's.  A marked hook is called once, even if a later hook changed the payload that it had seen:
only a guard is sure to judge the final payload.

notify                all at once, or in order if the flow is sequential; nothing refuses, a halt is a request
amend                 in order; first_wins on the original, or last_wins threaded
claim                 in order until one claims
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, assert_never

import msgspec

from hooklatch.core.call import Call
from hooklatch.core.combining import PatchMerge, merge_patch
from hooklatch.core.decision import Machine, apply_patch
from hooklatch.core.failures import format_failure
from hooklatch.core.hooks.registry import Hook
from hooklatch.core.hooks.snapshots import EventHooks, HookSelection, plan_call_groups, select_amenders
from hooklatch.core.messages import Cause, DecisionVerdict
from hooklatch.core.payload import Payload
from hooklatch_worker.author.verdicts import Answer

__all__ = ["order_hooks", "start_machine"]


def start_machine(
    chain: EventHooks, selection: HookSelection, payload: Payload, context: dict[str, Any], folder: str | None = None
) -> Machine:
    """Begin a fire of a chain of hooks; the selection has those that match the payload of an agent in `folder`."""
    match chain.spec.model:
        case "gate":
            gate = GateMachine(chain, selection, payload, context, folder)
            if selection.amenders:
                gate.begin(Phase.AMENDING)
            return gate
        case "notify":
            return NotifyMachine(chain, selection, payload, context, folder)
        case "amend":
            return AmendMachine(chain, selection, payload, context, folder)
        case "claim":
            return ClaimMachine(chain, selection, payload, context, folder)
        case _:
            assert_never(chain.spec.model)


def order_hooks(chain: EventHooks, selection: HookSelection) -> tuple[Hook, ...]:
    """Return the selected hooks in the order in which they are called: at a gate those that amend come first."""
    if not chain.spec.is_gate:
        return selection.hooks
    return (*selection.amenders, *(hook for hook in selection.hooks if not hook.amends))


NO_VERSION = -1  # for an answer that is not about the current payload


class Phase(Enum):
    """A phase of a gate: see the table above."""

    AMENDING = 1
    JUDGING = 2
    SETTLING = 3


class GateMachine(Machine):
    """The machine of a gate, which judges at once unless `begin` makes it amend first.

    Most fires change nothing, so the state that only a change needs is created with the first change.
    """

    phase = Phase.JUDGING
    amended: Payload | None = None  # the payload after all amenders
    changed_by: Hook | None = None
    merging: PatchMerge | None = None
    # The first refusal, where refusals do not end the chain.
    refusal: tuple[DecisionVerdict, Hook | None, str, Cause] | None = None

    def begin(self, phase: Phase) -> None:
        self.phase = phase
        self._walk_over(select_amenders(self.selection.hooks) if phase is Phase.AMENDING else self.selection.hooks)

    def _walk_over(self, hooks: Sequence[Hook]) -> None:
        """Walk over the hooks that are due in this phase."""
        seen_versions, is_settling = self.seen_versions, self.phase is Phase.SETTLING
        due = [
            hook
            for hook in hooks
            if hook not in seen_versions or (is_settling and seen_versions[hook] != self.payload.version)
        ]
        self.walk = iter(plan_call_groups(self.spec, due))

    def call(self, hook: Hook, following: tuple[Hook, ...]) -> Call:
        index, payload = self.chain.indices[hook], self.payload
        self.seen_versions[hook] = payload.version
        is_settling = self.phase is Phase.SETTLING
        if self.merging is None:
            return Call(index, hook, payload, self.context, None, is_settling, following)
        # Each hook gets the merged patches of the others, without its own, so it cannot share a worker's run.
        return Call(index, hook, payload, self.context, self.merging.without(index), is_settling)

    def end_walk(self) -> None:
        if self.phase is Phase.AMENDING:
            self.amended = self.payload
            self.begin(Phase.JUDGING)
            return
        if self.merging is not None and self.refusal is None:
            self._take_merged(self.merging)
        if self.is_settled:
            return
        if self.refusal is not None:
            self._end(*self.refusal)
        elif self.phase is Phase.JUDGING and self.payload is not (self.amended or self.original):
            self.begin(Phase.SETTLING)
        else:
            self.is_settled = True
            self.verdict, self.cause, self.reason = "pass", None, None
            if self.opinions:
                self._combine()
            if self.payload.version:
                self.patch = self._changes()

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.verdict in ("deny", "halt"):
            self._refuse("deny" if answer.verdict == "deny" else "halt", call.hook, answer.reason)
        elif answer.verdict == "ask" and self.phase is not Phase.AMENDING and "ask" in self.spec.ends_at:
            # The amenders' changes stay, but a guard's change was not judged by all guards.  While amending, an ask
            # ends nothing: the less trusted layers answer first there, and must not keep the others from answering.
            self._end("ask", call.hook, answer.reason, kept_payload=self.amended)
        elif answer.patch:
            self._apply(call, answer.patch)

    def _apply(self, call: Call, patch: dict[str, msgspec.Raw]) -> None:
        result = apply_patch(self.payload, patch)
        if self._is_merged(call.hook):
            if self.merging is None:
                self.merging = PatchMerge(self.spec)
            self.merging.patches[call.index] = patch
            self.changed_by = call.hook
            if result is not self.payload:
                # Its answer is about the merged payload, which does not exist yet.
                self.opinions[call.index].version = NO_VERSION
        elif isinstance(result, str):
            self.fail(call, "protocol", result)
        elif result is not self.payload and self.phase is Phase.SETTLING:
            self.fail(call, "unsettled", self._explain_unsettled(call.hook))
        elif result is not self.payload:
            # In this order: `_note_own_change` reads the new version, and the walk leaves out hooks that have seen it.
            self._change(result, call.hook)
            self._note_own_change(call.index)
            self._continue_walk(call.hook)

    def _is_merged(self, hook: Hook) -> bool:
        """Return whether a hook's patch is merged with all others; an amender's applies at once, or is too late."""
        is_own = self.phase is Phase.AMENDING or (self.phase is Phase.SETTLING and hook.amends)
        return self.spec.view == "original" and not is_own

    def _take_merged(self, merging: PatchMerge) -> None:
        """Apply the merged patches of hooks that saw the same payload; while settling, they must change nothing."""
        if not merging.patches:
            return
        merged, by = merging.merged(), self.changed_by
        assert by is not None
        result = apply_patch(self.payload, merged)
        if isinstance(result, str):
            self._refuse("deny", by, format_failure("protocol", result, by.name), "protocol")
        elif result is not self.payload and self.phase is Phase.SETTLING:
            self._refuse("deny", by, format_failure("unsettled", self._explain_unsettled(by), by.name), "unsettled")
        elif result is not self.payload:
            # Before the change: a patch is compared with all of them on the payload that the hooks saw.
            makers = [index for index, patch in merging.patches.items() if self._has_full_effect(patch, merged, result)]
            self._change(result, by)
            for index in makers:
                self._note_own_change(index)
        merging.keep(merged)

    def _has_full_effect(self, patch: dict[str, msgspec.Raw], merged: dict[str, msgspec.Raw], result: Payload) -> bool:
        """Return whether one hook's patch alone has the same effect on the payload as all of them together."""
        alone = apply_patch(self.payload, patch)
        return (
            isinstance(alone, Payload) and apply_patch(alone, merged) is alone and apply_patch(result, patch) is result
        )

    def _change(self, result: Payload, by: Hook) -> None:
        """Replace the current payload, and match again."""
        self.payload = result
        self.changed_by = by
        self.selection = self.chain.select(result, self.folder)
        if self.selection.fault:
            message = f"after its change, {self.selection.fault}"
            self._end("deny", by, format_failure("payload", message, by.name), "payload")

    def _note_own_change(self, index: int) -> None:
        """Note that a hook has seen the result of its own patch, and that its answer is about this result."""
        opinion = self.opinions[index]
        self.seen_versions[opinion.hook] = opinion.version = self.payload.version

    def _continue_walk(self, after: Hook) -> None:
        """Continue behind a hook, with the hooks that match the current payload."""
        order = select_amenders(self.chain.hooks) if self.phase is Phase.AMENDING else self.chain.hooks
        matching = set(self.selection.hooks)
        self._walk_over([hook for hook in order[order.index(after) + 1 :] if hook in matching])

    def _explain_unsettled(self, hook: Hook) -> str:
        """Return what happened, and the remedy: to mark the hook whose change came too late as an amender."""
        late = hook if not hook.amends else self.changed_by
        way_out = ""
        if late is not None and not late.amends:
            who = "it" if late is hook else late.name
            way_out = f"; mark {who} amends = true, so that its change is made once, before the guards judge"
        return f"it changed the payload again after the guards had been called again{way_out}"

    def fail(self, call: Call, cause: Cause, message: str) -> None:
        self._refuse("deny", call.hook, format_failure(cause, message, call.hook.name), cause)

    def _refuse(self, verdict: DecisionVerdict, hook: Hook | None, reason: str, cause: Cause = "policy") -> None:
        """Refuse now, or after the last hook if a refusal does not end the chain; the first refusal counts."""
        if verdict in self.spec.ends_at:
            self._end(verdict, hook, reason, cause)
        elif self.refusal is None:
            self.refusal = verdict, hook, reason, cause

    def _end(
        self,
        verdict: DecisionVerdict,
        hook: Hook | None,
        reason: str,
        cause: Cause = "policy",
        *,
        kept_payload: Payload | None = None,
    ) -> None:
        self.is_settled = True
        self.payload = kept_payload or self.original
        self.set_verdict(verdict, hook, reason, cause)
        if kept_payload is not None:
            self.patch = self._changes()

    def _combine(self) -> None:
        """Let the first ask decide, otherwise the first allow of exactly the payload that runs."""
        opinions, final = self.opinions_in_order(), self.payload.version
        for opinion in opinions:
            if opinion.answer.verdict == "ask":
                self.set_verdict("ask", opinion.hook, opinion.answer.reason)
                return
        for opinion in opinions:
            if opinion.answer.verdict == "allow" and opinion.version == final:
                self.set_verdict("allow", opinion.hook, opinion.answer.reason or None)
                return

    def _changes(self) -> dict[str, msgspec.Raw] | None:
        if not self.payload.version:
            return None
        # A key that follows from a change, as `tool_args` does, is left out: no host could apply it.
        before, ours = self.original.fields, self.spec.patch
        return {key: raw for key, raw in self.payload.fields.items() if key in ours and before.get(key) is not raw}


class NotifyMachine(Machine):
    """The machine of a notification: only a halt decides, as a request to the host."""

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.verdict == "halt" and self.decider is None:
            self.set_verdict("halt", call.hook, answer.reason)
        if answer.last or (answer.verdict == "halt" and self.spec.flow == "sequential"):
            self.is_settled = True


class AmendMachine(Machine):
    """The machine of an event whose hooks change the payload in order."""

    def call(self, hook: Hook, following: tuple[Hook, ...]) -> Call:
        return Call(self.chain.indices[hook], hook, self.payload, self.context, self.patch, following=following)

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.patch:
            self._take(answer.patch)
        if answer.verdict == "halt":
            self.set_verdict("halt", call.hook, answer.reason)
        if answer.last or answer.verdict == "halt":
            self.is_settled = True

    def _take(self, patch: dict[str, msgspec.Raw]) -> None:
        merged = dict(self.patch or {})
        merge_patch(self.spec, merged, patch)
        self.patch = merged or None
        if self.spec.view == "threaded":
            result = apply_patch(self.payload, patch)
            if isinstance(result, Payload):
                self.payload = result


class ClaimMachine(Machine):
    """The machine of an event that the first claiming hook answers."""

    def accept(self, call: Call, answer: Answer) -> None:
        if answer.verdict == "claim":
            self.value = answer.value
            self.set_verdict("claim", call.hook, answer.reason or None)
        if answer.last or answer.verdict == "claim":
            self.is_settled = True

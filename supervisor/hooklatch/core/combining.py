"""The rules for answers: the contents that an event allows in one, and the combination of several."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hooklatch.core.hooks.catalogue import EventSpec
from hooklatch_worker.author.verdicts import Answer

__all__ = ["PatchMerge", "find_fault", "join_reasons", "join_texts", "merge_patch"]


def find_fault(spec: EventSpec, answer: Answer, *, only_judges: bool = False) -> str | None:
    """Return the part of an answer that the event or the hook's declaration does not allow; None if all is legal."""
    if answer.verdict is not None and answer.verdict not in spec.verdicts:
        return f"{spec.name} does not allow the verdict {answer.verdict!r} (it allows {join_words(spec.verdicts)})"
    for output, is_used in (
        ("inject", bool(answer.inject)),
        ("append", bool(answer.append)),
        ("resume", answer.resume is not None),
    ):
        if is_used and output not in spec.outputs:
            return f"{spec.name} does not allow {output} (it allows {join_words(spec.outputs)})"
    if answer.value is not None and answer.verdict != "claim":
        return "a value needs the verdict 'claim'"
    if answer.instead is not None and answer.verdict not in ("deny", "ask"):
        return "`instead` needs the verdict 'deny' or 'ask'"
    if answer.last and not spec.allows_last:
        return f"{spec.name} does not allow last(): it ends the chain of a sequential event that is not a gate"
    if only_judges and (answer.patch or answer.context):
        changed = "payload" if answer.patch else "context"
        return f"it is marked only_judges, but changed the {changed}; remove the mark"
    return find_patch_fault(spec, answer) or find_message_fault(answer)


def find_patch_fault(spec: EventSpec, answer: Answer) -> str | None:
    for key in answer.patch or ():
        if key not in spec.patch:
            return f"{spec.name} does not allow a patch of {key!r} (it allows {join_words(spec.patch)})"
    return None


def find_message_fault(answer: Answer) -> str | None:
    for message in answer.inject:
        if not isinstance(message.get("role"), str) or "content" not in message:
            return "an injected message needs a role (a string) and a content"
    return None


def join_words(words: Iterable[str]) -> str:
    return ", ".join(sorted(words)) or "none"


def join_texts(parts: Iterable[str | None]) -> str | None:
    """Join the non-empty parts by one newline; None when there is none."""
    return "\n".join(part for part in parts if part) or None


def join_reasons(reasons: Iterable[str | None]) -> str | None:
    """Join as `join_texts` does, but an empty reason counts as one: only None does not."""
    given = [reason for reason in reasons if reason is not None]
    return (join_texts(given) or "") if given else None


def merge_patch(spec: EventSpec, merged: dict[str, msgspec.Raw], patch: dict[str, msgspec.Raw]) -> None:
    """Merge a patch into those before it: the first or the last value of a key wins, as the event defines.

    Where the first wins, null means "not set".
    """
    if spec.combine != "first_wins":
        merged.update(patch)
        return
    for key, value in patch.items():
        if bytes(value) != b"null":
            merged.setdefault(key, value)


class PatchMerge:
    """The patches of hooks that all got the same payload."""

    def __init__(self, spec: EventSpec) -> None:
        self._spec = spec
        self._before: dict[str, msgspec.Raw] = {}
        self.patches: dict[int, dict[str, msgspec.Raw]] = {}  # by each hook's index

    def without(self, index: int) -> dict[str, msgspec.Raw] | None:
        """Remove the patch of a hook that is about to answer again, and return the merged patches of the others."""
        self.patches.pop(index, None)
        return self.merged() or None

    def merged(self) -> dict[str, msgspec.Raw]:
        """Return all patches, merged in firing order."""
        merged = dict(self._before)
        for index in sorted(self.patches):
            merge_patch(self._spec, merged, self.patches[index])
        return merged

    def keep(self, merged: dict[str, msgspec.Raw]) -> None:
        """Put the merged patches before all later ones, where the first value wins."""
        if self._spec.combine == "first_wins":
            self._before = merged

"""Writes the table by which clients read decisions: `python tests/clients/decision_table.py`.

Fields and types are those of the daemon's structs.  The combinations are what its own code answers: each kind of event,
of the catalogue, of the dialects and as wide as an operator may define one, is played with every pair of answers and
failures; then come a person's word on each ask, a record that cannot be written, the refusals that call no hook, and
what each host's adapter makes of all these.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import inspect

from hooklatch.core.asks import AskResolution, apply_resolution
from hooklatch.core.decision import deny_unrecorded, refuse_fire
from hooklatch.core.failures import LOGGED, format_failure
from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition, EventSpec, Model
from hooklatch.core.messages import CallOutcome, ChainHead, DecisionVerdict, FireDecision
from hooklatch.core.refusal_texts import add_instead, tell_model
from hooklatch.dialects import BUILT_IN
from hooklatch.dialects.dialect import adapt_spec
from hooklatch.dialects.find import load_built_in
from hooklatch.hosts.find import find_host, list_hosts
from hooklatch.hosts.host import Host, HostEvent
from hooklatch_worker.author.verdicts import Answer, decode_answer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.native import decided, native
from support.plays import Reply, failed, play
from support.repository import ROOT

__all__ = ["COPIES", "text"]

# The same text where each client finds it without the others.
COPIES = [
    ROOT / "supervisor/hooklatch/client/protocol/decisions.json",
    ROOT / "clients/typescript/src/decisions.json",
    ROOT / "clients/elixir/lib/hooklatch/decisions.json",
    ROOT / "clients/rust/src/decisions.json",
]
DEPTH = 1000  # levels of a line: what CPython's recursion limit lets the daemon itself read
# What clients call these structs.
WORDS: dict[type, str] = {CallOutcome: "outcome", ChainHead: "head", FireDecision: "decision"}
CATALOGUE = Catalogue.standard()
INTERNAL = {"answer", "traceback", "is_lost", "is_orphaned", "earlier_ms"}  # of an outcome: never sent
MESSAGE = {"role": "user", "content": "look"}
OUTPUTS = ["inject", "append", "resume"]
VERDICTS = {"gate": ["allow", "ask", "halt"], "notify": ["halt"], "amend": ["halt"], "claim": ["halt"]}
# What a decision may be beside its verdict and its cause. Who decided, and why, is text in any of them, or null.
FORMS = ("patch", "append", "resume", "value", "revision")


def table() -> dict[str, Any]:
    """Return the table as it should be."""
    decision, more = fields_of(FireDecision)
    return {
        "depth": DEPTH,
        "decision": {"always": decision, "sometimes": {**more, "rendered": "any", "followed_by": "decisions"}},
        "outcome": dict(zip(("always", "sometimes"), fields_of(CallOutcome), strict=True)),
        "head": dict(zip(("always", "sometimes"), fields_of(ChainHead), strict=True)),
        "events": {name: spec.model for name, spec in CATALOGUE.items()},
        "told": {cause: told(cause) for cause in [*LOGGED, "no_daemon"]},
        "instead": add_instead("", "COMMAND").removesuffix("COMMAND"),
        "combinations": rows(),
    }


def told(cause: str) -> list[str]:
    """Return what a model is told of a failure, before and after why."""
    decision = decided("deny", cause=cause, reason=format_failure(cause, "WHY"))
    return tell_model(decision).split(": WHY")


def text() -> str:
    """Return the table as it is written: a combination a line."""
    whole = table()
    lines = ",\n".join(f"    {json.dumps(row)}" for row in whole.pop("combinations"))
    head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in whole.items())
    return f'{{\n{head},\n  "combinations": [\n{lines}\n  ]\n}}\n'


def fields_of(struct: type[msgspec.Struct]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types of the fields that are always sent, and of the others."""
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)
    shown = [field for field in kind.fields if field.name not in INTERNAL]
    always = {field.encode_name: word_of(field.type) for field in shown if field.required}
    return always, {field.encode_name: word_of(field.type) for field in shown if not field.required}


def word_of(kind: inspect.Type) -> str:
    match kind:
        case inspect.RawType() | inspect.AnyType():
            return "any"
        case inspect.UnionType(types=parts):
            (word,) = {word_of(part) for part in parts if not isinstance(part, inspect.NoneType)}
            return word if word == "any" else f"{word}?"
        case inspect.StrType() | inspect.LiteralType():
            return "text"
        case inspect.BoolType():
            return "flag"
        case inspect.IntType():
            return "integer"
        case inspect.FloatType():
            return "number"
        case inspect.DictType():
            return "object"
        case inspect.ListType(item_type=part):
            return f"{word_of(part)}s"
        case inspect.StructType(cls=struct):
            return WORDS.get(struct, struct.__name__.lower())
    raise TypeError(f"no word for {kind}")


def rows() -> list[dict[str, Any]]:
    """Return the combinations: what is `set` is never null there, what is `null` is never anything else."""
    seen: defaultdict[tuple[Model, str, str | None], list[FireDecision]] = defaultdict(list)
    for model, decision in combinations():
        seen[model, decision.verdict, decision.cause].append(decision)
    models, verdicts = list(get_args(Model)), list(get_args(DecisionVerdict))
    return [
        {
            "model": model, "verdict": verdict, "cause": cause, **retryable(found),
            "set": [key for key in FORMS if all(getattr(one, key) is not None for one in found)],
            "null": [key for key in FORMS if all(getattr(one, key) is None for one in found)],
        }
        for (model, verdict, cause), found in sorted(
            seen.items(), key=lambda item: (models.index(item[0][0]), verdicts.index(item[0][1]), item[0][2] or "")
        )
    ]  # fmt: skip


def retryable(found: list[FireDecision]) -> dict[str, bool]:
    (value,) = {one.retryable for one in found}
    return {"retryable": value}


def combinations() -> Iterator[tuple[Model, FireDecision]]:
    """Yield at least one decision of each form that the daemon can answer."""
    for spec in {shape_of(spec): spec for spec in specs()}.values():
        made = [refuse_fire(spec, cause, "why", decision_id="d1", revision=7) for cause in LOGGED]
        for decision in {form_of(one): one for one in (*played(spec), *made)}.values():
            yield from ((spec.model, one) for one in made_of(spec, decision))


def shape_of(spec: EventSpec) -> tuple[object, ...]:
    """Return what a decision on an event depends on, but for the event's own names."""
    hosts = tuple(
        host.name for host in map(find_host, list_hosts()) for event in host.events.values() if event.event == spec.name
    )
    axes = spec.model, spec.flow, spec.view, spec.combine, spec.ends_at
    return *axes, spec.verdicts, spec.outputs, spec.patch if hosts else bool(spec.patch), hosts


def form_of(decision: FireDecision) -> tuple[object, ...]:
    forms = tuple(getattr(decision, key) is None for key in FORMS)
    return decision.verdict, decision.cause, *forms, bool(decision.inject), bool(decision.reason), decision.retryable


def specs() -> list[EventSpec]:
    """Return the events: the catalogue's, such as operators can define, and each as dialects have it."""
    found = dict(CATALOGUE.with_custom(customs()))
    feeds = [
        feed for dialect in map(load_built_in, BUILT_IN) for event in dialect.events.values() for feed in event.feeds
    ]
    return [*found.values(), *(adapt_spec(feed, found[feed.event]) for feed in feeds)]


def customs() -> Iterator[EventDefinition]:
    for model, words in VERDICTS.items():
        patch = ["key"] if model in ("gate", "amend") else []
        own = {"gate": ["deny"], "claim": ["claim"]}.get(model, [])
        for count in range(len(words) + 1):
            for some in itertools.combinations(words, count):
                name = "_".join((model, "of", *some))
                verdicts = [*own, *some]
                yield EventDefinition(name=name, model=model, verdicts=verdicts, outputs=OUTPUTS, patch=patch)  # type: ignore[arg-type]


def played(spec: EventSpec) -> Iterator[FireDecision]:
    alphabet = replies(spec)
    plain = [msgspec.json.encode({"verdict": word, "reason": "why"}) for word in sorted(spec.verdicts)]
    unmarked: dict[str, Any] = {"b": {}}
    payload = dict.fromkeys([spec.match or "x", *spec.patch], "y")
    for first, second in itertools.product(alphabet, [None, *plain, failed("crash")]):
        yield play(spec, payload=payload, marks=unmarked, a=first, b=second).decision
    for mark, first in itertools.product(({"optional": True}, {"observe": True}), alphabet):
        yield play(spec, payload=payload, marks={"a": mark, **unmarked}, a=first, b=None).decision


def replies(spec: EventSpec) -> list[Reply]:
    """Return what a hook of this event can answer, as different as it can be, and how its call can fail."""
    outputs: dict[str, Any] = {"inject": [MESSAGE], "append": ["more"], "resume": "go on"}
    extras = [{}, *({key: value} for key, value in outputs.items() if key in spec.outputs)]
    extras += [{"patch": {key: "z"}} for key in sorted(spec.patch)[:1]]
    words: list[dict[str, Any]] = [{}]
    words += [{"verdict": word, "reason": reason} for word in sorted(spec.verdicts) for reason in ("", "why")]
    words += [{"verdict": "claim", "value": 1}] if "claim" in spec.verdicts else []
    answers = [msgspec.json.encode(word | extra) for word in words for extra in extras]
    assert all(isinstance(decode_answer(one), Answer) for one in answers)
    return [None, *answers, *(failed(cause, "it failed") for cause in LOGGED)]


def made_of(spec: EventSpec, decision: FireDecision) -> Iterator[FireDecision]:
    """Yield a decision, and what else becomes of it before it is answered or announced."""
    for one in [decision, *(asked(spec, decision) if decision.verdict == "ask" else ())]:
        yield one
        fitted = list(fitted_to_hosts(spec, one))
        yield from fitted
        if spec.fails_closed:
            yield from (deny_unrecorded(made, "the disk is full") for made in (one, *fitted))


def asked(spec: EventSpec, decision: FireDecision) -> Iterator[FireDecision]:
    yield apply_resolution(
        spec, decision, AskResolution(id="d1", verdict="allow", cause="policy", reason="fine", by="tom")
    )
    yield apply_resolution(
        spec, decision, AskResolution(id="d1", verdict="deny", cause="policy", reason="no", by="tom")
    )
    for cause in LOGGED:
        yield apply_resolution(spec, decision, AskResolution(id="d1", verdict="deny", cause=cause, reason="why"))


def fitted_to_hosts(spec: EventSpec, decision: FireDecision) -> Iterator[FireDecision]:
    for host, told in natives(spec.name):
        yield host.fit(told, decision)


@cache
def natives(event: str) -> list[tuple[Host, HostEvent]]:
    return [
        (host, native(host.name, name))
        for host in map(find_host, list_hosts())
        for name, known in host.events.items()
        if known.event == event
    ]


if __name__ == "__main__":
    for copy in COPIES:
        copy.write_text(text())

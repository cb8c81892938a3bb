"""A gate amends, then judges: which hooks are called, with which payload, and what their answers count."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.core.hooks.catalogue import EventSpec, Field
from hooklatch.core.hooks.registry import Layer
from hooklatch.core.hooks.snapshots import EventHooks
from hooklatch.core.payload import Payload
from hooklatch.core.phases import order_hooks
from hooklatch_worker.author.verdicts import Verdict, allow, amend, ask, deny, halt, inject
from support.plays import CATALOGUE, Reply, begin, end, failed, hook, outcome_of, play
from support.profiles import examples
from support.tables import table

PROMPT = {"prompt": "p"}
MARKED = {"amends": True}


SHAPE = re.compile(
    r"(?P<layer>[SRPGLBF])(?P<marks>[!~?]*)((?P<way>[/@])(?P<match>.))?((?P<how>[+=-])(?P<what>[a-z]))?\.?(?P<word>.*)"
)
LAYERS = dict(zip("FBLGPRS", sorted(Layer), strict=True))
MARKS = {"!": "amends", "~": "observe", "?": "optional"}
WORDS: dict[str, Verdict[Any]] = {"deny": deny("no"), "ask": ask("sure?"), "halt": halt("stop"), "allow": allow()}


class Written:
    """A hook on a prompt, as it is written in the tables below: "G+x" is a global one that puts an x before it.

    S, R, P, G, L, B and F are the layers session, parent, project, global, plugin, built-in, fleet. A `!` marks it
    `amends`, `~` lets it observe, `?` makes it optional; `/x` matches prompts with an x in them, `@x` has
    that as a condition. `+x` puts x before
    the prompt, `=x` makes it x, `-x` takes each x out; a word behind that is a verdict or a failure, `deny:x` one on
    prompts with an x.
    """

    def __init__(self, hook_id: str, text: str) -> None:
        shape = SHAPE.fullmatch(text)
        assert shape is not None
        self.how, self.what = shape["how"], shape["what"]
        self.word, _, self.letter = shape["word"].partition(":")
        self.match = shape["match"]
        match = {"regex": self.match, "search": True} if shape["way"] == "/" else None
        where = {"prompt": {"glob": f"*{self.match}*"}} if shape["way"] == "@" else None
        marks: dict[str, Any] = {MARKS[mark]: True for mark in shape["marks"]}
        self.hook = hook(hook_id, "pre_tool_use", match=match, where=where, layer=LAYERS[shape["layer"]], **marks)

    def made(self, prompt: str) -> str:
        changed = {"+": f"{self.what}{prompt}", "=": self.what, "-": prompt.replace(self.what or " ", "")}
        return changed.get(self.how, prompt)

    def says(self, prompt: str) -> str:
        return self.word if self.letter in prompt else ""

    def answer(self, prompt: str) -> Reply:
        word, made = self.says(prompt), self.made(prompt)
        if word == "fail":
            return failed("crash")
        said = WORDS.get(word)
        if made == prompt:
            return said
        return said.amend(prompt=made) if said is not None else amend(prompt=made)


class Told:
    """What was played: the calls as "id prompt", with an asterisk where reinvoked, and what was decided."""

    def __init__(self, written: str, spec: EventSpec) -> None:
        self.hooks = [Written(chr(ord("a") + number), text) for number, text in enumerate(written.split())]
        by_hook = {one.hook: one for one in self.hooks}
        fire = begin(spec, sorted(by_hook, key=lambda one: one.layer), {"prompt": "p"})
        self.calls: list[str] = []
        self.shown: dict[Written, list[str]] = {one: [] for one in self.hooks}
        while started := fire.next_calls():
            (call,) = started
            one, prompt = by_hook[call.hook], json.loads(call.payload.data)["prompt"]
            self.calls.append(f"{call.hook.id} {prompt}" + "*" * call.reinvoked)
            self.shown[one].append(prompt)
            fire.receive(call, outcome_of(one.answer(prompt)))
        self.decision = end(fire)
        patch = json.loads(msgspec.json.encode(self.decision.patch))
        self.final: str = "p" if patch is None else patch["prompt"]

    @property
    def text(self) -> str:
        said = self.decision.cause if self.decision.cause not in (None, "policy") else self.decision.verdict
        return f"{said} {self.final}" if self.decision.verdict not in ("deny", "halt") else str(said)


def spec(**axes: Any) -> EventSpec:
    patch, fields = frozenset({"prompt"}), (Field("prompt", "str"),)
    return msgspec.structs.replace(CATALOGUE["pre_tool_use"], match="prompt", patch=patch, fields=fields, **axes)


THREADED = spec()

TABLE = [
    # hooks              calls                                  decision
    ("S+x",              "a p",                                 "pass xp"),            # it has seen what it made
    ("G S+x",            "a p, b p, a xp*",                     "pass xp"),
    ("S+x S",            "a p, b xp",                           "pass xp"),
    ("S+x S+y",          "a p, b xp, a yxp*",                   "unsettled"),
    ("S+x.allow",        "a p",                                 "allow xp"),           # of what it made
    ("Gallow S+x",       "a p, b p, a xp*",                     "allow xp"),
    ("Gallow:p S=x",     "a p, b p, a x*",                      "pass x"),             # its last answer stands
    ("Gask S+x",         "a p, b p, a xp*",                     "ask xp"),
    # marked ones come first, the least trusted layer first, each once on the last one's output
    ("S!+x",             "a p",                                 "pass xp"),
    ("G!+x S!+y",        "b p, a yp",                           "pass xyp"),
    ("B!+b L!+l G!+g P!+p R!+r S!+s", "f p, e sp, d rsp, c prsp, b gprsp, a lgprsp", "pass blgprsp"),
    ("S!+x S!+y S!+z",   "a p, b xp, c yxp",                    "pass zyxp"),
    ("G S!+x",           "b p, a xp",                           "pass xp"),
    ("G! S!+x",          "b p, a xp",                           "pass xp"),
    ("G!-x S!+x Sdeny:x", "b p, a xp, c p",                     "pass p"),             # the operator's is last
    ("Gdeny:x S!+x",     "b p, a xp",                           "deny"),
    ("G!+x Sdeny:x",     "a p, b xp",                           "deny"),
    ("S!+x Sdeny:p",     "a p, b xp",                           "deny"),
    # an unmarked change afterwards has everybody asked again
    ("G!-x S+x",         "a p, b p, a xp*",                     "unsettled"),          # and never undoes an amendment
    ("G!-x S+y",         "a p, b p, a yp*",                     "pass yp"),
    ("G!+x S+y",         "a p, b xp, a yxp*",                   "unsettled"),
    ("G!=q P S=r",       "a p, b q, c q, a r*",                 "unsettled"),
    ("G!deny:y S+y",     "a p, b p, a yp*",                     "deny"),
    # what a marked one may say
    ("S!deny G",         "a p",                                 "deny"),
    ("S!halt G",         "a p",                                 "halt"),
    ("S!fail G",         "a p",                                 "crash"),
    ("S!?fail G",        "a p, b p",                            "pass p"),
    ("S!ask G!+x Gallow", "a p, b p, c xp",                     "ask xp"),
    ("S!ask Gdeny",      "a p, b p",                            "deny"),
    ("S!allow",          "a p",                                 "allow p"),
    ("S!+x.allow G",     "a p, b xp",                           "allow xp"),
    ("S!allow G!+x",     "a p, b p",                            "pass xp"),            # it allowed another input
    ("S!+x.allow G!+y",  "a p, b xp",                           "pass yxp"),
    ("S!~+x G!+y",       "a p, b p",                            "pass yp"),            # what observes changes nothing
    # matching: as the payload is when a hook's turn comes, and once more on what runs
    ("G!/x+y S!+x",      "b p, a xp",                           "pass yxp"),
    ("S!/x+y G!=q S!=x", "c p, b x",                            "pass q"),
    ("S!/p+y S!=x",      "a p, b yp",                           "pass x"),
    ("S!=x S!/p+y",      "a p",                                 "pass x"),
    ("S!/x+y G!=x",      "b p, a x, b yx*",                     "unsettled"),          # it had not matched before
    ("S!/x+y G!-z",      "b p",                                 "pass p"),
    ("S!/x+y G!-p S=x",  "b p, c , b x*, a x*",                 "unsettled"),
    ("S!/xdeny G!+x",    "b p, a xp",                           "deny"),
    ("S!/x-x G!+x",      "b p, a xp, b p*",                     "unsettled"),
    ("G/pdeny S!=x",     "b p",                                 "pass x"),
    ("G/xdeny S!=x",     "b p, a x",                            "deny"),
    ("G@xdeny S!=x",     "b p, a x",                            "deny"),
    ("G@xdeny S=y",      "b p",                                 "pass y"),
    ("S!@x+y G!=x",      "b p, a x, b yx*",                     "unsettled"),
    ("G/xdeny S=x",      "b p, a x*",                           "deny"),
    ("S=x S/xdeny",      "a p, b x",                            "deny"),
    ("S=x S/pdeny",      "a p",                                 "pass x"),
    ("S=x S/pdeny S=p",  "a p, c x, a p*",                      "unsettled"),
]  # fmt: skip


@table(("hooks", "calls", "decided"), TABLE, ids=[row[0] for row in TABLE])
def test_a_gate_amends_then_judges(hooks: str, calls: str, decided: str) -> None:
    told = Told(hooks, THREADED)

    assert (", ".join(told.calls), told.text) == (calls, decided)


FIRST, LAST = spec(view="original", combine="first_wins"), spec(view="original", combine="last_wins")
PATIENT = spec(view="original", combine="first_wins", ends_at=frozenset())
ASKING = spec(ends_at=frozenset({"deny", "halt", "ask"}))

BY_AXES = [
    # amenders are threaded whatever the axes say; guards are then shown what they made as the original
    (FIRST,   "S!+x G!+y S S",       "a p, b xp, c yxp, d yxp",                 "pass yxp"),
    (FIRST,   "S!-p G!-y S+u S+v",   "a p, b , c , d , b u*, a u*, d u*",       "pass u"),
    (LAST,    "S!-p G!-y S+u S+v",   "a p, b , c , d , b v*, a v*, c v*",       "pass v"),
    (LAST,    "S+u",                 "a p",                                     "pass up"),
    (FIRST,   "S+u.allow S",         "a p, b p, b up*",                         "allow up"),
    (LAST,    "S+u.allow S+v",       "a p, b p, a vp*",                         "pass vp"),
    # a merge never undoes what an amender made of it
    (FIRST,   "G!-x S+x",            "a p, b p, a xp*",                         "unsettled"),
    (LAST,    "G!-x S+x",            "a p, b p, a xp*",                         "unsettled"),
    # where no refusal ends the chain, the first one counts
    (PATIENT, "S!deny G!+x S",       "a p, b p, c xp",                          "deny"),
    (PATIENT, "S!fail G!+x Sdeny",   "a p, b p, c xp",                          "crash"),
    (PATIENT, "Sdeny S+x",           "a p, b p",                                "deny"),
    # an ask ends the judging, and leaves what amenders made; it does not keep amenders from amending
    (ASKING,  "S!ask G!+x Gdeny:z",  "a p, b p, c xp",                          "ask xp"),
    (ASKING,  "S!ask G!+x Gdeny:x",  "a p, b p, c xp",                          "deny"),
    (ASKING,  "G!+x G+y Gask Gdeny", "a p, b xp, c yxp",                        "ask xp"),
]  # fmt: skip


@table(("axes", "hooks", "calls", "decided"), BY_AXES)
def test_a_gate_amends_then_judges_on_a_dialects_axes(axes: EventSpec, hooks: str, calls: str, decided: str) -> None:
    told = Told(hooks, axes)

    assert (", ".join(told.calls), told.text) == (calls, decided)


def test_outputs_of_a_second_answer_replace_those_of_the_first() -> None:
    first, second = ({"role": "user", "content": word} for word in ("first", "second"))
    marks = {"a": MARKED}

    played = play("pre_tool_use", marks=marks, a=[inject(first), inject(second)], b=amend(tool_input={}))

    assert (played.asked, played.decision.inject) == (["a", "b", "a again"], [second])


def test_what_amended_is_told_with_the_order_of_firing() -> None:
    hooks = [hook("b", layer=Layer.BUILTIN, **MARKED), hook("g", layer=Layer.GLOBAL), hook("s", **MARKED), hook("t")]

    def called(spec: EventSpec) -> list[str]:
        chain = EventHooks(spec, hooks)
        return [one.id for one in order_hooks(chain, chain.select(Payload(b'{"tool_name": "Bash"}')))]

    assert called(THREADED) == ["s", "b", "g", "t"]
    assert called(CATALOGUE["post_model"]) == ["b", "g", "s", "t"]  # no guards: all of them amend


@pytest.mark.parametrize("value", [None, 5])
def test_an_amendment_that_leaves_a_matcher_blind_denies_before_a_guard_is_asked(value: object) -> None:
    marks = {"a": MARKED, "b": {"match": "Bash"}}

    played = play("tool_selection", payload={"tool_name": "Read"}, marks=marks, a=amend(tool_name=value), b=None)

    assert (played.decision.verdict, played.decision.cause, played.asked) == ("deny", "payload", ["a"])


CHOICES = (
    ("S", "G", "R", "P", "L"),
    ("", "!", "~", "?", "!~", "!?"),
    ("", "/x", "/y", "/p", "@x", "@y", "@p"),
    ("", "+x", "+y", "=x", "=y", "-x", "-p"),
    ("", ".allow", ".ask", ".allow:x", ".deny:y", ".ask:x", ".fail:y", ".halt:p"),
)
HOOK = st.sampled_from(["".join(parts) for parts in itertools.product(*CHOICES)])
AXES: Final = st.sampled_from([THREADED, THREADED, FIRST, LAST, PATIENT, ASKING])


@examples(160)
@given(st.lists(HOOK, min_size=1, max_size=6).map(" ".join), AXES)
def test_nothing_runs_that_a_matching_guard_has_not_seen(hooks: str, axes: EventSpec) -> None:
    told = Told(hooks, axes)
    decision, final = told.decision, told.final

    assert all(len(shown) <= 2 for shown in told.shown.values())
    if decision.verdict in ("deny", "halt"):
        assert decision.patch is None
        return
    if decision.verdict == "ask" and "ask" in axes.ends_at:
        return  # the person is asked before every guard was
    for one in told.hooks:
        if one.match is not None and one.match not in final:
            continue
        shown = told.shown[one]
        assert shown, "it matches what runs and was not called"
        if not one.hook.amends:
            assert final in shown or (not one.hook.observe and one.made(shown[-1]) == final)
    for one in told.hooks:
        said = [one.says(prompt) for prompt in told.shown[one]]
        if said and said[-1] == "ask" and not one.hook.observe:
            assert decision.verdict == "ask"
    if decision.verdict == "allow":
        (decider,) = [one for one in told.hooks if one.hook.id == decision.hook]
        last = told.shown[decider][-1]
        assert final == decider.made(last)


@examples(160)
@given(st.lists(HOOK, max_size=5).map(" ".join), AXES)
def test_an_operators_amendment_is_the_last(hooks: str, axes: EventSpec) -> None:
    told = Told(f"{hooks} B!-x", axes)

    if told.decision.verdict not in ("deny", "halt"):
        assert "x" not in told.final

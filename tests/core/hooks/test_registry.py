"""Which hooks fire, in which order, and the differences between registries."""

from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.conditions import compile_where
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.registry import (
    EVERY_GATE,
    DeclarationSite,
    Hook,
    Layer,
    PythonTarget,
    ServedTarget,
    apply_switches,
)
from hooklatch.core.hooks.snapshots import (
    MAX_KEPT,
    MAX_KEPT_VALUE,
    MAX_NARROWED,
    EventHooks,
    HookSelection,
    Snapshot,
    compare_snapshots,
    select_amenders,
)
from hooklatch.core.hooks.suspension import Suspension
from hooklatch.core.payload import Payload, PayloadError
from hooklatch_worker.wire import Source
from support.plays import CATALOGUE, hook
from support.tables import table

TOOL = CATALOGUE["pre_tool_use"]
GUARDS = PythonTarget(Source("file", "/h/guards.py", "abc"), 1, "guard")


def ids(hooks: Any) -> list[str]:
    return [hook.id for hook in hooks]


def changed(hook: Hook, **changes: Any) -> Hook:
    return msgspec.structs.replace(hook, **changes)


def test_layers_fire_in_order_whatever_their_priorities() -> None:
    layers = [Layer.SESSION, Layer.PARENT, Layer.PROJECT, Layer.GLOBAL, Layer.PLUGIN, Layer.BUILTIN, Layer.FLEET]
    hooks = [hook(layer.label, layer=layer, priority=1000 - 10 * layer) for layer in layers]

    assert ids(Snapshot(1, hooks).hooks) == ["fleet", "builtin", "plugin", "global", "project", "parent", "session"]


def test_within_a_layer_a_higher_priority_fires_first() -> None:
    hooks = [hook("low", priority=0), hook("usual"), hook("high", priority=1000)]

    assert ids(Snapshot(1, hooks).hooks) == ["high", "usual", "low"]


def test_equal_priorities_keep_their_order_of_registration() -> None:
    names = ["m", "z", "a", "q", "b"]

    assert ids(Snapshot(1, [hook(name) for name in names]).hooks) == names


def test_a_snapshot_does_not_see_what_becomes_of_the_list_it_was_made_from() -> None:
    hooks = [hook("a")]
    snapshot = Snapshot(1, hooks)

    hooks.append(hook("b"))

    assert ids(snapshot.hooks) == ["a"]
    assert ids(snapshot.for_event(TOOL)) == ["a"]


def test_only_enabled_hooks_of_the_event_fire() -> None:
    snapshot = Snapshot(1, [hook("a"), hook("off", enabled=False), hook("other", "stop")])

    assert ids(snapshot.for_event(TOOL)) == ["a"]
    assert snapshot.for_event(CATALOGUE["pre_model"]) == ()


def test_a_hook_of_every_gate_stands_at_those_that_fail_closed_and_at_no_other() -> None:
    snapshot = Snapshot(1, [hook("broken", EVERY_GATE)])

    stands_at = {name for name, spec in CATALOGUE.items() if snapshot.for_event(spec)}

    assert stands_at == {name for name, spec in CATALOGUE.items() if spec.model == "gate"}


def test_a_definition_cannot_be_altered() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        hook("a").priority = 5  # type: ignore[misc]


def test_those_whose_matcher_accepts_the_payload_are_selected_in_order() -> None:
    hooks = [hook("bash", match="Bash"), hook("all"), hook("edit", match="Edit"), hook("glob", match={"glob": "B*"})]

    assert ids(EventHooks(TOOL, hooks).select(Payload(b'{"tool_name": "Bash"}')).hooks) == ["bash", "all", "glob"]


@pytest.mark.parametrize("data", [b"{}", b'{"tool_name": null}', b'{"tool_name": 5}', b'{"tool_name": ["Bash"]}'])
def test_a_matcher_without_a_string_to_look_at_is_blind(data: bytes) -> None:
    selection = EventHooks(TOOL, [hook("all"), hook("bash", match="Bash")]).select(Payload(data))

    assert selection.fault
    assert ids(selection.hooks) == ["all"]


def test_without_matchers_nothing_is_blind() -> None:
    assert not EventHooks(TOOL, [hook("all"), hook("star", match="*")]).select(Payload(b"{}")).fault


def test_selections_are_kept_for_so_many_values_and_for_short_ones() -> None:
    among = EventHooks(TOOL, [hook("bash", match="Bash")])

    def select(tool: str) -> HookSelection:
        return among.select(Payload(msgspec.json.encode({"tool_name": tool})))

    first = select("0")
    for number in range(1, MAX_KEPT):
        select(str(number))
    assert select("0") is first
    select("one more")  # a host may name tools without end
    assert select("0") is not first
    for length, is_kept in ((MAX_KEPT_VALUE, True), (MAX_KEPT_VALUE + 1, False)):
        assert (select("x" * length) is select("x" * length)) is is_kept


def test_narrower_selections_are_kept_up_to_a_number() -> None:
    hooks = [hook(f"h{bit}", where={"tool_input.text": {"glob": f"*{bit}*"}}) for bit in "abcdefg"]
    among = EventHooks(TOOL, hooks)

    def select(number: int) -> HookSelection:
        text = "".join(bit for place, bit in enumerate("abcdefg") if number >> place & 1)
        return among.select(Payload(msgspec.json.encode({"tool_name": "t", "tool_input": {"text": text}})))

    first = select(0)
    for number in range(1, MAX_NARROWED):
        select(number)
    assert select(0) is first
    assert ids(select(MAX_NARROWED).hooks) == ["hg"]
    assert select(0) is not first


def test_an_event_without_a_match_field_selects_all() -> None:
    selection = EventHooks(CATALOGUE["stop"], [hook("a", "stop"), hook("b", "stop")]).select(Payload(b"{}"))

    assert ids(selection.hooks) == ["a", "b"]


def test_a_payload_that_is_no_object_cannot_be_matched() -> None:
    with pytest.raises(PayloadError):
        EventHooks(TOOL, [hook("bash", match="Bash")]).select(Payload(b"[]"))


@pytest.mark.parametrize(
    ("timeouts", "requested", "seconds"),
    [
        ([], None, 5.0),
        ([1.0], None, 5.0),
        ([None, 2.0], None, 7.0),
        ([None, None, None], None, 15.0),
        ([600.0, 600.0], None, 600.0),
        ([20.0], 0.5, 0.5),
        ([], 5000.0, 600.0),
    ],
)
def test_the_budget_of_a_fire(timeouts: list[float | None], requested: float | None, seconds: float) -> None:
    hooks = [hook(str(index), timeout=timeout) for index, timeout in enumerate(timeouts)]

    assert HookSelection(TOOL, hooks).budget(requested) == seconds


def test_a_difference_names_what_was_added_removed_and_changed() -> None:
    old = Snapshot(1, [hook("stays"), hook("goes"), hook("changes")])
    new = Snapshot(2, [hook("stays"), hook("changes", priority=5), hook("comes")])

    found = compare_snapshots(old, new)

    assert (found.added, found.removed, found.changed) == (["comes"], ["goes"], ["changes"])


def test_the_same_id_in_another_layer_is_another_hook() -> None:
    found = compare_snapshots(Snapshot(1, [hook("a")]), Snapshot(2, [hook("a", layer=Layer.GLOBAL)]))

    assert (found.added, found.removed, found.changed) == (["a"], ["a"], [])


def test_equal_definitions_make_no_difference() -> None:
    found = compare_snapshots(Snapshot(1, [hook("a", match=["Edit"])]), Snapshot(2, [hook("a", match=["Edit"])]))

    assert found.is_empty


DOES: list[dict[str, Any]] = [
    {"id": "b"},
    {"event": "pre_model"},
    {"layer": Layer.GLOBAL},
    {"matcher": compile_matcher("Bash")},
    {"where": compile_where({"command": "rm"})},
    {"timeout": 2.0},
    {"priority": 101},
    {"enabled": False},
    {"observe": True},
    {"optional": True},
    {"amends": True},
    {"only_judges": True},
    {"config": b'{"a":1}'},
    {"problem": "no such file"},
    {"plugin": "acme"},
    {"suspendable": False},
    {"owner": "s"},
    {"project": "/p"},
    {"target": ServedTarget(1)},
    {"target": changed(GUARDS, function="other")},
    {"target": changed(GUARDS, build=2)},
    {"target": changed(GUARDS, runtime="asyncio")},
    {"target": changed(GUARDS, dialect="ethos")},
    {"target": changed(GUARDS, native="before_tool_call")},
    {"target": changed(GUARDS, source=Source("file", "/h/guards.py", "def"))},
    {"target": changed(GUARDS, source=Source("file", "/h/other.py", "abc"))},
]
SAYS: list[dict[str, Any]] = [
    {"description": "new words"},
    {"origin": DeclarationSite("/h/hooks.toml", 9)},
    {"size": 7},
    {"dangers": ("it runs './check.sh'",)},  # of the config, too
    {"target": changed(GUARDS, command="make lint")},  # which is of the config, too
]


@table("change", DOES, ids=str)
def test_the_digest_changes_with_what_a_hook_does(change: dict[str, Any]) -> None:
    before = hook("a", target=GUARDS)

    assert Snapshot(1, [before]).digest != Snapshot(1, [changed(before, **change)]).digest


@table("change", SAYS, ids=str)
def test_the_digest_does_not_change_with_words_about_a_hook(change: dict[str, Any]) -> None:
    before = hook("a", target=GUARDS)

    assert Snapshot(1, [before]).digest == Snapshot(2, [changed(before, **change)]).digest


def test_of_each_field_of_a_hook_and_its_target_it_is_known_whether_the_digest_has_it() -> None:
    """A field that is missing there changes nothing in a session: a view of the same digest stays as it was."""
    changes = [*DOES, *SAYS]
    targets = [change["target"] for change in changes if isinstance(change.get("target"), PythonTarget)]

    assert {field for change in changes for field in change} == {*Hook.__struct_fields__}
    assert {
        field
        for target in targets
        for field in target.__struct_fields__
        if getattr(target, field) != getattr(GUARDS, field)
    } == {*PythonTarget.__struct_fields__}


def test_the_digest_changes_with_the_order_of_firing() -> None:
    assert Snapshot(1, [hook("a"), hook("b")]).digest != Snapshot(1, [hook("b"), hook("a")]).digest


def test_a_view_is_like_another_of_the_same_digest_and_like_no_longer_or_shorter_one() -> None:
    one, same, more = (Snapshot(1, [hook(name) for name in names]) for names in ("a", "a", "ab"))

    assert one.is_like(same)
    assert not one.is_like(more)
    assert not one.is_like(Snapshot(1, [hook("b")]))


def test_the_digest_is_of_the_firing_order_not_of_the_order_of_arrival() -> None:
    first, last = hook("a", priority=200), hook("b")

    assert Snapshot(1, [first, last]).digest == Snapshot(1, [last, first]).digest


def test_a_switch_disables_by_layer_and_id() -> None:
    hooks = [hook("a"), hook("a", layer=Layer.GLOBAL), hook("b", enabled=False)]

    after = apply_switches(hooks, {"session/a": False, "session/b": True})

    assert [hook.enabled for hook in after] == [False, True, True]
    assert after[1] is hooks[1]


def test_a_hook_says_where_it_comes_from() -> None:
    assert hook("a", layer=Layer.BUILTIN).name == "builtin/a"
    assert GUARDS.describe() == "/h/guards.py:guard"
    assert [str(DeclarationSite("/h/x.toml", 3)), str(DeclarationSite("/h/x.toml"))] == ["/h/x.toml:3", "/h/x.toml"]


@pytest.mark.parametrize("shared", [["global", "plugin"], ["global", "parent"], []])
@pytest.mark.parametrize("own", [["session", "parent"], ["session"], []])
def test_a_snapshot_on_a_base_is_the_same_as_one_of_all_its_hooks(shared: list[str], own: list[str]) -> None:
    base = [hook(f"base-{name}", layer=Layer[name.upper()], priority=len(name)) for name in shared]
    more = [hook(f"own-{name}", layer=Layer[name.upper()]) for name in own]

    flat, stacked = Snapshot(1, [*base, *more]), Snapshot(1, more, Snapshot(1, base))

    assert stacked.hooks == flat.hooks
    assert stacked.digest == flat.digest
    assert stacked.for_event(TOOL) == flat.for_event(TOOL)


@pytest.mark.parametrize("name", ["fleet/f", "plugin:acme/*"])
def test_no_switch_reaches_a_hook_of_the_fleet(name: str) -> None:
    hooks = [hook("f", layer=Layer.FLEET, plugin="acme"), hook("g", plugin="acme")]

    switched_hooks = apply_switches(hooks, {name: False})

    assert switched_hooks[0].enabled
    assert switched_hooks[1].enabled is (name == "fleet/f")


@pytest.mark.parametrize("name", [None, "fleet/f", "plugin:acme/*"])
def test_no_suspension_covers_a_hook_that_is_not_to_be_suspended(name: str | None) -> None:
    one = hook("f", layer=Layer.FLEET, plugin="acme")
    suspension = Suspension(name, 0, 1, "r")

    assert suspension.covers(one)
    assert not suspension.covers(changed(one, suspendable=False))


def test_the_fleets_amendment_is_the_last_one() -> None:
    hooks = [hook(layer.label, layer=layer, amends=True) for layer in Layer]

    assert ids(select_amenders(hooks))[-2:] == ["builtin", "fleet"]

"""Names of hooks: each full name means one thing, and an ambiguous name is rejected with all its meanings."""

from __future__ import annotations

import re
import shlex

import pytest

from hooklatch.core.hooks.definitions import InvalidHookError, read_definition
from hooklatch.core.hooks.matchers import compile_matcher
from hooklatch.core.hooks.names import (
    LIKE_A_NAME,
    full_hook_name,
    is_name,
    name_whole_plugin,
    quote_name,
    strip_scope,
)
from hooklatch.core.hooks.registry import Hook, Layer, ServedTarget
from hooklatch.core.hooks.resolving import AmbiguousNameError, UnknownNameError, resolve_name
from support.tables import table


def hook(layer: Layer, hook_id: str, plugin: str | None = None, *, project: str = "", session: str = "") -> Hook:
    return Hook(
        id=hook_id, event="stop", layer=layer, matcher=compile_matcher(None), target=ServedTarget(1), plugin=plugin,
        project=project, owner=session,
    )  # fmt: skip


PLACES = [
    ("fleet", {}),
    ("global", {}),
    ("builtin", {}),
    ("project", {"project": "/srv/a"}),
    ("project", {"project": "/srv/a/no"}),
    ("project", {"project": "/"}),
    ("parent", {"project": "/srv/a"}),
    ("session", {"session": "s"}),
    ("session", {"session": "s/no"}),
    ("session", {"session": "%2F"}),
]
IDS = ["rm", "no/rm", "no%2Frm", "no%252Frm", "a:b", "*", "no rm", "ü"]


def test_no_two_hooks_share_a_name_and_a_gate_handed_down_keeps_its_own() -> None:
    names = {(full_hook_name(layer, one, **place), one) for layer, place in PLACES for one in IDS}

    assert len({name for name, _ in names}) == len(names) == (len(PLACES) - 1) * len(IDS)
    for name, hook_id in names:
        assert is_name(name)
        assert re.match(LIKE_A_NAME, name)
        assert strip_scope(name) == hook_id
        assert shlex.split(quote_name(name)) == [name]


KNOWN = [
    hook(Layer.GLOBAL, "no-rm"),
    hook(Layer.PROJECT, "no-rm", project="/a"),
    hook(Layer.PROJECT, "no-rm", project="/b"),
    hook(Layer.PROJECT, "only", project="/b"),
    hook(Layer.SESSION, "mine", session="s1"),
    hook(Layer.SESSION, "mine", session="s2"),
    hook(Layer.PLUGIN, "acme.audit", "acme"),
    hook(Layer.PLUGIN, "acme.rm", "acme"),
    hook(Layer.GLOBAL, "of-acme", "acme"),
    hook(Layer.PLUGIN, "broken", "broken"),
    hook(Layer.GLOBAL, "both"),
    hook(Layer.PLUGIN, "both.x", "both"),
    hook(Layer.BUILTIN, "lsp"),
]


@table(
    ("text", "name", "count"),
    [
        ("global/no-rm", "global/no-rm", 1),
        ("project:/a/no-rm", "project:/a/no-rm", 1),
        ("only", "project:/b/only", 1),
        ("session:s2/mine", "session:s2/mine", 1),
        ("acme.audit", "plugin/acme.audit", 1),
        ("acme", "plugin:acme/*", 3),
        ("plugin:acme/*", "plugin:acme/*", 3),
        ("broken", "plugin:broken/*", 1),
        ("plugin/broken", "plugin:broken/*", 1),
        ("global/both", "global/both", 1),
        ("lsp", "builtin/lsp", 1),
    ],
)
def test_a_name_or_an_id_of_one_hook_means_it(text: str, name: str, count: int) -> None:
    target = resolve_name(text, KNOWN)

    assert (target.name, len(target.hooks)) == (name, count)
    assert (target.plugin is not None) == name.startswith("plugin:")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("no-rm", ["global/no-rm", "project:/a/no-rm", "project:/b/no-rm"]),
        ("mine", ["session:s1/mine", "session:s2/mine"]),
        ("both", ["global/both", "plugin:both/*"]),
    ],
)
def test_what_may_mean_several_is_refused_with_all_of_them(text: str, names: list[str]) -> None:
    with pytest.raises(AmbiguousNameError) as caught:
        resolve_name(text, KNOWN)

    assert caught.value.names == names
    assert all(shlex.quote(name) in str(caught.value) for name in names)


@pytest.mark.parametrize(
    "text", ["", "no", "project/no-rm", "project:/c/no-rm", "parent/no-rm", name_whole_plugin("nobody"), "*"]
)
def test_what_nothing_is_called_is_unknown(text: str) -> None:
    with pytest.raises(UnknownNameError):
        resolve_name(text, KNOWN)


@pytest.mark.parametrize(
    "hook_id", ["fleet/x", "global/x", "builtin/x", "plugin/x", "project:/a/x", "session:s/x", "plugin:a/*"]
)
def test_no_id_may_look_like_a_name(hook_id: str) -> None:
    with pytest.raises(InvalidHookError, match="looks like a hook's full name"):
        read_definition({"id": hook_id, "event": "stop", "run": "a.py:f"})


@pytest.mark.parametrize("hook_id", ["plugin:acme", "session:no_rm", "project:f", "globally/x", "a/b", "x:global/y"])
def test_an_id_that_a_file_gives_its_function_stays_one(hook_id: str) -> None:
    (definition,) = read_definition({"id": hook_id, "event": "stop", "run": "a.py:f"})

    assert definition.id == hook_id
    assert not is_name(hook_id)

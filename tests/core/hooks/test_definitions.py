"""What a hook's declaration may contain, and the errors for invalid ones."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from hooklatch.core.hooks.definitions import InvalidHookError, define_marked_hook, read_definition
from hooklatch_worker.author.marker import MarkedEvent
from support.tables import table

GOOD = {"id": "x", "event": "pre_tool_use", "run": "guards.py:no"}


def refused(**changes: Any) -> str:
    with pytest.raises(InvalidHookError) as caught:
        read_definition({key: value for key, value in (GOOD | changes).items() if value != "absent"})
    return str(caught.value)


def test_a_definition_has_defaults_for_all_but_event_and_target() -> None:
    (hook,) = read_definition({"event": "stop", "run": "/h/guards.py:no"})

    assert (hook.id, hook.event, hook.run, hook.served) == ("guards:no", "stop", "/h/guards.py:no", False)
    assert (hook.priority, hook.timeout, hook.enabled, hook.observe, hook.optional) == (100, None, True, False, False)
    assert hook.matcher.matches_all


def test_several_events_give_a_hook_each_with_the_event_in_its_id() -> None:
    hooks = read_definition(GOOD | {"event": ["stop", "notification"]})

    assert [hook.id for hook in hooks] == ["x@stop", "x@notification"]


@table(
    ("changes", "text"),
    [
        ({"run": "absent"}, "needs one target"),
        ({"served": True}, "needs one target"),
        ({"run": "guards.py"}, 'run is "file.py:function" or "module:function", not \'guards.py\''),
        ({"run": ["guards.py", "no"]}, 'run is "file.py:function" or "module:function", not ['),
        ({"id": "absent", "run": "absent", "served": True}, 'it has no id; write id = "a-name"'),
        ({"event": "absent"}, 'it has no event; write event = "pre_tool_use"'),
        ({"event": []}, "event is a name or a list of names"),
        ({"event": ["stop", 1]}, "event is a name or a list of names"),
        ({"event": ""}, "event is a name or a list of names"),
        ({"mtach": "Bash"}, "a hook has no key 'mtach'; did you mean 'match'?"),
        ({"zzz": 1}, "a hook has no key 'zzz'; it takes id, event"),
        ({"timeout": 5000}, "timeout is a number over 0 and at most 600 (seconds, not milliseconds), not 5000"),
        ({"timeout": 0}, "seconds, not milliseconds"),
        ({"timeout": -1.5}, "seconds, not milliseconds"),
        ({"timeout": float("nan")}, "seconds, not milliseconds"),
        ({"timeout": "1"}, "timeout is a number over 0 and at most 600 (seconds, not milliseconds), not '1'"),
        ({"timeout": True}, "timeout is a number over 0"),
        ({"priority": 1001}, "priority is a whole number from 0 to 1000, not 1001"),
        ({"priority": -1}, "from 0 to 1000"),
        ({"priority": 1.5}, "from 0 to 1000"),
        ({"priority": True}, "from 0 to 1000"),
        ({"enabled": "yes"}, "enabled is true or false, not 'yes'"),
        ({"observe": 1}, "observe is true or false"),
        ({"optional": None}, "optional is true or false"),
        ({"amends": "yes"}, "amends is true or false"),
        ({"only_judges": 1}, "only_judges is true or false"),
        ({"amends": True, "only_judges": True}, "only_judges that it changes nothing: remove one of them"),
        ({"description": 1}, "description is a string"),
        ({"config": [1]}, "config is a table"),
        ({"match": []}, "match: a list of names must hold at least one string"),
        ({"match": {"regexp": "a"}}, "match: a matcher is a name"),
        ({"match": {"regex": "("}}, "match: '(' is not a pattern"),
        ({"id": ""}, "id is one line of at most 200 characters"),
        ({"id": "a\nb"}, "id is one line"),
        ({"id": "x" * 201}, "id is one line"),
        ({"id": 7}, "id is one line of at most 200 characters, not 7"),
    ],
)
def test_a_bad_definition_is_refused_by_what_is_wrong_with_it(changes: dict[str, Any], text: str) -> None:
    assert text in refused(**changes)


@pytest.mark.parametrize("table", [None, 7, "x", ["a"]])
def test_what_is_no_table_is_no_hook(table: object) -> None:
    with pytest.raises(InvalidHookError, match="a hook is a table"):
        read_definition(table)


def test_the_hook_is_named_where_its_id_is_known() -> None:
    assert refused(timeout=0).startswith("hook 'x': ")


def test_a_bad_matcher_is_kept_as_a_problem_where_a_file_declares_it() -> None:
    (hook,) = read_definition(GOOD | {"match": {"regex": "("}}, is_lenient=True)

    assert hook.problem is not None
    assert hook.problem.startswith("match: '('")
    assert hook.matcher.matches_all  # it stands wherever it could have stood


def test_config_travels_as_json() -> None:
    (hook,) = read_definition(GOOD | {"config": {"since": datetime.date(2020, 1, 2), "n": 2**70}})

    assert hook.config == b'{"since":"2020-01-02","n":1180591620717411303424}'


def test_a_marked_function_is_named_by_its_file_and_where_it_has_several_events_by_those() -> None:
    marker = MarkedEvent(event="stop")

    alone = define_marked_hook(marker, stem="guards", function="no", line=7, has_siblings=False)
    beside = define_marked_hook(marker, stem="guards", function="no", line=7, has_siblings=True)

    assert (alone.id, beside.id, alone.line) == ("guards:no", "guards:no@stop", 7)

"""The parts of a verdict, and its transport to the daemon."""

import json
import math
from collections import OrderedDict
from typing import Any

import msgspec
import pytest

from hooklatch_worker.author.verdicts import (
    Answer,
    GarbageError,
    Verdict,
    allow,
    amend,
    append,
    ask,
    claim,
    context,
    decode_answer,
    deny,
    encode_verdict,
    halt,
    inject,
    last,
    resume,
    warn,
)
from support.tables import table

MESSAGE = {"role": "user", "content": "hello"}


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    return value


@table(
    ("verdict", "answer"),
    [
        (allow(), {"verdict": "allow"}),
        (allow("because"), {"verdict": "allow", "reason": "because"}),
        (deny("no"), {"verdict": "deny", "reason": "no"}),
        (deny(""), {"verdict": "deny"}),
        (ask("sure?"), {"verdict": "ask", "reason": "sure?"}),
        (deny("no", instead=" ls "), {"verdict": "deny", "reason": "no", "instead": "ls"}),
        (ask("sure?", instead="ls"), {"verdict": "ask", "reason": "sure?", "instead": "ls"}),
        (halt("stop"), {"verdict": "halt", "reason": "stop"}),
        (claim({"a": 1}), {"verdict": "claim", "value": {"a": 1}}),
        (claim(None), {"verdict": "claim", "value": None}),
        (claim((1, 2**200, -0.5, True)), {"verdict": "claim", "value": [1, 2**200, -0.5, True]}),
        (claim(OrderedDict[str, int](a=1)), {"verdict": "claim", "value": {"a": 1}}),
        (amend(a=1, self=2), {"patch": {"a": 1, "self": 2}}),
        (inject(MESSAGE), {"inject": [MESSAGE]}),
        (inject([MESSAGE, {**MESSAGE, "x": 1}]), {"inject": [MESSAGE, {**MESSAGE, "x": 1}]}),
        (append("more"), {"append": ["more"]}),
        (resume(""), {"resume": ""}),
        (warn("careful"), {"warnings": ["careful"]}),
        (last(), {"last": True}),
        (context(user="me"), {"context": {"user": "me"}}),
        (
            warn("x").amend(a=1).amend(b=2, a=3).append("1").append("2").allow().warn("y").context(k=None),
            {
                "verdict": "allow",
                "patch": {"a": 3, "b": 2},
                "append": ["1", "2"],
                "warnings": ["x", "y"],
                "context": {"k": None},
            },
        ),
    ],
)
def test_only_what_was_said_is_written(verdict: object, answer: dict[str, object]) -> None:
    assert json.loads(encode_verdict(verdict)) == answer


def test_no_opinion_is_written_as_nothing() -> None:
    assert encode_verdict(None) == b""


@pytest.mark.parametrize("word", ["allow", "deny", "ask", "halt", "claim"])
def test_a_verdict_says_one_word(word: str) -> None:
    with pytest.raises(ValueError, match=f"both 'deny' and '{word}'"):
        getattr(deny("no"), word)("again")


def test_combining_leaves_the_first_verdict_as_it_was() -> None:
    first = amend(a=1)

    first.amend(b=2).deny("no")

    assert first == Verdict(patch={"a": 1})


@pytest.mark.parametrize(
    ("say", "argument"),
    [(deny, None), (warn, 1), (append, b"x"), (resume, None), (inject, ["x"]), (inject, {"content": "x"})],
)
def test_an_argument_of_the_wrong_type_is_refused_where_it_is_written(say: Any, argument: object) -> None:
    with pytest.raises(TypeError):
        say(argument)


@table(
    ("instead", "error", "text"),
    [
        (5, TypeError, "deny(instead=...) takes a str, not a 'int'"),
        (["ls"], TypeError, "deny(instead=...) takes a str, not a 'list'"),
        ("", ValueError, "instead has 0 characters; write a command of 1 to 500"),
        (" \n", ValueError, "instead has 0 characters"),
        ("x" * 501, ValueError, "instead has 501 characters"),
    ],
)
def test_what_cannot_be_run_instead_is_refused_where_it_is_written(
    instead: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        deny("no", instead=instead)

    assert text in str(caught.value)
    assert deny("no", instead="x" * 500).instead == "x" * 500


@pytest.mark.parametrize("instead", ["5", '""', '" "', '["ls"]', json.dumps("x" * 501)])
def test_an_answer_with_what_cannot_be_run_instead_is_garbage(instead: str) -> None:
    with pytest.raises(GarbageError, match=r"\$\.instead"):
        decode_answer(f'{{"verdict": "deny", "instead": {instead}}}'.encode())


@table(
    ("returned", "text"),
    [
        ("deny", 'returned a \'str\'; return deny("why"), ask("why"), allow() or None'),
        (True, "returned a 'bool'"),
        ({"verdict": "allow"}, "returned a 'dict'"),
        (deny, "returned a 'method'"),
        (claim(math.nan), "value holds nan"),
        (amend(a=[math.inf]), "patch holds inf"),
        (claim({1: 2}), "keys must be str"),
        (claim({1, 2}), "'set', which is not plain JSON"),
        (claim(b"x"), "'bytes', which is not plain JSON"),
        (context(a=object()), "'object', which is not plain JSON"),
        (claim("\ud800"), "lone surrogate"),
        (claim({"\ud800": 1}), "lone surrogate"),
        (deny("\ud800"), "lone surrogate"),
        (claim(10**5000), "cannot be written"),
        (claim(cyclic()), "nested too deep, or holds itself"),
        (claim(deep()), "nested too deep, or holds itself"),
    ],
)
def test_what_is_no_plain_verdict_is_garbage(returned: object, text: str) -> None:
    with pytest.raises(GarbageError) as caught:
        encode_verdict(returned)

    assert text in str(caught.value)


def test_an_answer_arrives_as_it_was_sent() -> None:
    verdict = allow("ok").amend(a={"b": 1}).inject(MESSAGE).append("x").resume("y").warn("z").last().context(k=1)

    answer = decode_answer(encode_verdict(verdict))

    assert answer.patch is not None
    assert bytes(answer.patch["a"]) == b'{"b":1}'
    assert msgspec.structs.replace(answer, patch=None) == Answer(
        verdict="allow",
        reason="ok",
        inject=[MESSAGE],
        append=["x"],
        resume="y",
        warnings=["z"],
        last=True,
        context={"k": 1},
    )


@pytest.mark.parametrize("data", [b"", b"null", b"{}", b'{"verdict": null, "reason": null, "inject": null}'])
def test_silence_is_an_empty_answer(data: bytes) -> None:
    assert decode_answer(data) == Answer()


def test_one_message_or_text_may_stand_without_its_list() -> None:
    answer = decode_answer(b'{"inject": {"role": "user", "content": "hello"}, "append": "x"}')

    assert (answer.inject, answer.append) == ([MESSAGE], ["x"])


@pytest.mark.parametrize(("data", "value"), [(b'{"verdict":"claim","value":null}', b"null"), (b"{}", None)])
def test_a_null_value_is_not_an_absent_one(data: bytes, value: bytes | None) -> None:
    claimed = decode_answer(data).value

    assert (claimed if claimed is None else bytes(claimed)) == value


def test_a_big_integer_is_passed_on_digit_by_digit() -> None:
    patch = decode_answer(b'{"patch": {"n": 123456789012345678901234567890}}').patch

    assert patch is not None
    assert bytes(patch["n"]) == b"123456789012345678901234567890"


@table(
    "data",
    [
        b"[]",
        b'"deny"',
        b"{",
        b"\xff",
        b"\x00" * 10,
        b'{"verdict": "pass"}',
        b'{"verdict": "allow", "verdicts": 1}',
        b'{"verdict": 1}',
        b'{"reason": 1}',
        b'{"patch": []}',
        b'{"append": [1]}',
        b'{"inject": ["x"]}',
        b'{"last": "yes"}',
        b'{"value": 1e999}',
        b'{"value": NaN}',
        b'{"value": "\xff"}',
        b'{"value": "\\ud800"}',
        b'{"patch": {"a": [1e999]}}',
        b'{"patch": {"a": "\xff"}}',
        b'{"context": {"a": -1e999}}',
        b'{"reason": "\xff"}',
        b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"context": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"value": ' + b"9" * 5000 + b"}",
        b'{"verdict": "allow"} {"verdict": "deny"}',
    ],
    ids=lambda data: repr(data[:40]),
)
def test_bytes_that_are_no_answer_are_garbage(data: bytes) -> None:
    with pytest.raises(GarbageError, match="the answer is not readable"):
        decode_answer(data)

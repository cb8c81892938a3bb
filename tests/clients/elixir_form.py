"""Elixir's terms, functions and calls in the form that clients/elixir/test/driver.exs reads.  Runs nothing."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CONTEXT", "OK", "answers", "append", "at", "binary", "call", "calls", "exits", "fun", "gave", "join", "keys",
    "kills", "merge", "names", "path", "raised", "raises", "struct", "throws", "tuple_", "when", "without",
]  # fmt: skip

Term = Any
Does = dict[str, Any]

CONTEXT: Term = {"$argument": 0}


def keys(**members: Term) -> Term:
    """Return a map with atoms as keys."""
    return {f":{key}": value for key, value in members.items()}


def tuple_(*items: Term) -> Term:
    return {"$tuple": [*items]}


def struct(kind: str, /, **members: Term) -> Term:
    return {"$struct": kind, **keys(**members)}


def binary(base64: str) -> Term:
    return {"$binary": base64}


def path(relative: str) -> Term:
    return {"$path": relative}


def at(*keys_: Term) -> Term:
    """Return what stands for a part of a function's first argument."""
    return {"$at": [*keys_]}


def merge(more: Term) -> Term:
    return {"$merge": [CONTEXT, more]}


def without(*keys_: Term) -> Term:
    return {"$drop": [CONTEXT, [*keys_]]}


def append(key: Term, item: Term) -> Term:
    return {"$append": [at(key), item]}


def join(*texts: Term) -> Term:
    return {"$join": [*texts]}


def answers(term: Term) -> Does:
    return {"answer": term}


def raises(text: str) -> Does:
    return {"raise": text}


def throws(term: Term) -> Does:
    return {"throw": term}


def exits(term: Term) -> Does:
    return {"exit": term}


def kills() -> Does:
    return {"kill": True}


def when(*keys_: Term, then: Does, otherwise: Does, **test: Term) -> Does:
    """Return a function that looks at what its first argument has: `is_=TERM`, `has=TEXT`, or anything."""
    wanted = {name.rstrip("_"): value for name, value in test.items()}
    return {"when": {"at": [*keys_], **wanted}, "then": then, "else": otherwise}


def fun(does: Does, name: str, arity: int) -> Term:
    return {"$function": does, "as": name, "arity": arity}


# What a callback answers that has nothing against it.
OK = answers(":ok")


def call(name: str, *arguments: Term, **more: Any) -> dict[str, Any]:
    """Return the command for a call of a system's function; `more` is process, keep, begin."""
    process = more.pop("process", None)
    return {"do": "native", "call": name, "with": [*arguments], **({"in": process} if process else {}), **more}


def gave(term: Term, *called: Any) -> Any:
    """Return what a report has to be: what the caller was given, and with what each function was called, if named."""
    report: dict[str, Any] = {"gave": term, "logged": {"$any": True}}
    return report | {"called": [*called] if called else {"$any": True}}


def calls(name: str, *arguments: Term) -> Any:
    """Return what is reported of one call of a function."""
    return {"hook": name, "with": [*arguments]}


def names(*functions: str) -> list[Any]:
    """Return what is reported of calls whose arguments do not matter."""
    return [{"hook": name, "with": {"$any": True}} for name in functions]


def raised(text: str) -> Any:
    return {"$part": {"raised": {"$part": {"text": {"$has": text}}}}}

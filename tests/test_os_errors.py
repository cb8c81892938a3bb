"""An error of the system is told to people in words: never as `[Errno 13] Permission denied: ...`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from hooklatch.errors import describe_error, explain_error, locate_error
from support.repository import ROOT
from support.tables import table

OS_ERRORS = {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, OSError)}
DENIED = PermissionError(13, "Permission denied", "/h/a.toml")


@table(
    "error, reason, place, message",
    [
        (
            DENIED,
            "Permission denied",
            "/h/a.toml cannot be accessed: Permission denied",
            "/h/a.toml cannot be accessed: Permission denied; let the user that runs hooklatch read it, or remove it",
        ),
        (
            FileNotFoundError(2, "No such file", b"/h/\xff"),
            "No such file",
            "/h/\\xff cannot be accessed: No such file",
            "/h/\\xff cannot be accessed: No such file; fix it, or remove it",
        ),
        (OSError("its disk"), "its disk", "its disk", "its disk; fix it, or remove it"),
        (ValueError("no number"), "no number", "no number", "no number"),
    ],
)
def test_an_error_says_what_happened_where_and_what_to_do(
    error: Exception, reason: str, place: str, message: str
) -> None:
    assert (explain_error(error), locate_error(error), describe_error(error)) == (reason, place, message)


def named_in(node: ast.expr | None) -> set[str]:
    if isinstance(node, ast.Tuple):
        return set().union(*map(named_in, node.elts))
    return {node.id} if isinstance(node, ast.Name) else set()


def bare(tree: ast.AST) -> Iterator[int]:
    """Yield the lines where an error of the system that was caught becomes a text as it is."""
    for handler in ast.walk(tree):
        if not (isinstance(handler, ast.ExceptHandler) and handler.name and named_in(handler.type) & OS_ERRORS):
            continue
        for node in ast.walk(handler):
            match node:
                case ast.FormattedValue(value=ast.Name(id=handler.name)):
                    yield node.lineno
                case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=handler.name)]):
                    yield node.lineno
                case _:
                    pass


def test_no_error_of_the_system_is_shown_as_it_is() -> None:
    found: list[str] = []
    for folder in ("supervisor/hooklatch", "workers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "guards/gallery" not in path.as_posix():  # those are files of a user's own once they are added
                found += [f"{path.relative_to(ROOT)}:{line}" for line in bare(ast.parse(path.read_text()))]

    assert not found, f"use why, where_and_why or trouble of hooklatch/errors.py: {found}"
    assert [*bare(ast.parse("try: f()\nexcept (OSError, ValueError) as error: say(f'no: {error}', str(error))"))] == [
        2,
        2,
    ]

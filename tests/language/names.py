"""Check the names of the source: one meaning a class, a noun for a thing, and no variable without a meaning."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

__all__ = ["check_names"]

MAX_MODULES = 3  # that may have a top-level function of one name
ENTRANCES = frozenset({"main", "run", "__getattr__", "add_show"})  # that a caller by name expects: Parser, for one
PARTICIPLE = re.compile(r"[A-Z][a-z]*(?:ed|ing|wn|pt|ught|ound)")
PARTICIPLES = frozenset({"Accepted", "Script"})  # public in the client; a noun
EMPTY_NAMES = frozenset({"one", "told", "said"})  # say nothing of what the variable holds
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def check_names(trees: Mapping[Path, ast.Module], avoided: Mapping[str, str], kept: Set[str]) -> Iterator[str]:
    """Yield a finding for each name that breaks a rule.

    `avoided` maps a word to the glossary's word for it, and `kept` are the names that stay all the same.
    """
    classes, functions = defaultdict[str, list[Path]](list), defaultdict[str, list[Path]](list)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(path)
            elif isinstance(node, FUNCTIONS):
                functions[node.name].append(path)
        yield from (
            f"{path}:{line}: the variable {name!r} says nothing of the thing" for name, line in empty_names(tree)
        )
    for name, paths in classes.items():
        if len(paths) > 1:
            yield f"{paths[1]}: the class {name} has the name of another, in {paths[0]}"
        if PARTICIPLE.fullmatch(name) and name not in PARTICIPLES:
            yield f"{paths[0]}: the class {name} is named by a participle; name the thing"
        last = re.findall(r"[A-Z][a-z]*|[A-Z]+(?=[A-Z]|$)", name)[-1:]
        if last and name not in kept and (term := avoided.get(last[0].lower())):
            yield f"{paths[0]}: the class {name} says {last[0].lower()!r}, for which the glossary has {term!r}"
    for name, paths in functions.items():
        if len(paths) > MAX_MODULES and name not in ENTRANCES:
            yield f"{paths[0]}: the function {name} stands in {len(paths)} modules; say of what"


def empty_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the names of variables that say nothing, and their lines."""
    fields = {
        item.target
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if node in fields:
                pass  # a key on the wire, which the glossary holds
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
                if name in EMPTY_NAMES:
                    yield name, node.lineno
            case _:
                pass

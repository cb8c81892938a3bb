"""The imports in the text of a Python file, and the files that its hooks name.  Runs nothing of it.

Pure: knows syntax trees, but not the modules that exist.
"""

from __future__ import annotations

import _ast  # `ast` takes longer to import than most sources
from collections.abc import Iterator

__all__ = ["list_imports", "list_named_files"]

IMPORTERS = frozenset({"import_module", "__import__", "find_spec", "run_module"})


def list_imports(data: bytes, package: str, *, is_package: bool) -> Iterator[str]:
    """Return the full names of possible modules in a file's import statements, and in calls with a literal name.

    Relative imports begin at `package`.
    """
    for node in parse_nodes(data):
        match node:
            case _ast.Import(names=names):
                yield from (alias.name for alias in names)
            case _ast.ImportFrom(module=module, names=names, level=level):
                if (base := resolve_import(module or "", package, level)) is not None:
                    yield base
                    yield from (f"{base}.{alias.name}" if base else alias.name for alias in names if alias.name != "*")
            case _ast.Call(func=_ast.Name(id=called) | _ast.Attribute(attr=called), args=[first, *_]):
                if called in IMPORTERS and isinstance(first, _ast.Constant) and isinstance(first.value, str):
                    name = first.value.lstrip(".")
                    if (base := resolve_import(name, package, len(first.value) - len(name))) is not None:
                        yield base
            case _ast.Assign(targets=[_ast.Name(id="__all__")], value=value) if is_package:
                yield from (f"{package}.{name}" for name in list_literal_texts(value))  # for `from package import *`
            case _:
                continue


def list_named_files(data: bytes) -> list[str]:
    """Return the names in each literal `files=[...]` of any call, since `@hook` may be imported under another name."""
    if b"files" not in data:
        return []
    calls = (node for node in parse_nodes(data) if isinstance(node, _ast.Call))
    named = (keyword.value for call in calls for keyword in call.keywords if keyword.arg == "files")
    return [name for value in named for name in list_literal_texts(value)]


def resolve_import(name: str, package: str, level: int) -> str | None:
    """Return the full name of a relative import; None if it leads out of the package."""
    if not level:
        return name
    parts = package.split(".") if package else []
    if level > len(parts):
        return None
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def list_literal_texts(value: _ast.expr) -> list[str]:
    elements = value.elts if isinstance(value, _ast.List | _ast.Tuple) else []
    return [
        element.value for element in elements if isinstance(element, _ast.Constant) and isinstance(element.value, str)
    ]


def parse_nodes(data: bytes) -> Iterator[_ast.AST]:
    """Return all nodes of a file; none if it has an error, which its import will report."""
    try:
        tree: object = compile(data, "<build>", "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    pending: list[object] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, _ast.AST):
            yield node
            pending += (getattr(node, field, None) for field in node._fields)

"""The gallery: its guards, the summary of each and what it needs.  They are read as text, and none is run."""

from __future__ import annotations

import ast
from importlib.resources import files
from importlib.util import find_spec
from typing import TypeAlias

import msgspec

__all__ = [
    "AddedGuards", "Gallery", "GalleryGuard", "ShownGuard", "describe_guard", "read_guard_cases", "list_gallery",
    "find_gallery_guard", "read_guard_source",
]  # fmt: skip

GALLERY = files("hooklatch.guards") / "gallery"
# The module that a guard imports and hooklatch does not bring by itself, and what to install for it.
NEEDED = {
    "secrets": ("detect_secrets", "hooklatch[guards-secrets]"),
    "audit_otel": ("opentelemetry.exporter.otlp.proto.http", "hooklatch[otel]"),
}


class GalleryGuard(msgspec.Struct, frozen=True):
    """One guard: its name, summary and events, what to install for it, and whether that is missing.

    `source` is the git repository, revision and commit of a shared guard; None for one of the gallery.
    """

    name: str
    summary: str
    events: list[str]
    needs: str | None = None
    is_missing: bool = False
    source: str | None = None


class ShownGuard(msgspec.Struct, frozen=True):
    """`guards show`: a guard, its source, and its cases as JSON lines."""

    guard: GalleryGuard
    source: str
    cases: str


class AddedGuards(msgspec.Struct, frozen=True):
    """`guards add`: the files that were written, the guards, and commands to go on with."""

    created: list[str]
    guards: list[GalleryGuard]
    next: list[str]


Gallery: TypeAlias = list[GalleryGuard]


def list_gallery() -> list[GalleryGuard]:
    """Return all guards of the gallery by name."""
    names = sorted(path.name.removesuffix(".py") for path in GALLERY.iterdir() if path.name.endswith(".py"))
    return [find_gallery_guard(name) for name in names]


def find_gallery_guard(name: str) -> GalleryGuard:
    """Return one guard.

    Raises:
        FileNotFoundError: there is none of that name.
    """
    tree = ast.parse(read_guard_source(name))
    summary = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
    module, needs = NEEDED.get(name, (None, None))
    return GalleryGuard(
        name, summary, list_marked_event_names(tree), needs, module is not None and not is_there(module)
    )


def describe_guard(name: str, text: str, source: str) -> GalleryGuard:
    """Return a shared guard by its text, which may be anything."""
    try:
        tree = ast.parse(text)
        summary = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
        return GalleryGuard(name, summary, list_marked_event_names(tree), source=source)
    except (SyntaxError, ValueError, TypeError, IndexError, RecursionError, MemoryError):
        return GalleryGuard(name, "", [], source=source)


def read_guard_source(name: str) -> str:
    return (GALLERY / f"{name}.py").read_text(encoding="utf-8")


def read_guard_cases(name: str) -> str:
    """Return the cases of a guard for `hooklatch test`: JSON lines."""
    return (GALLERY / f"{name}.jsonl").read_text(encoding="utf-8")


def list_marked_event_names(tree: ast.Module) -> list[str]:
    """Return the events that the hooks of a file are marked with, in their order."""
    events: list[str] = []
    for function in [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "hook":
                marked_events = ast.literal_eval(decorator.args[0])
                events += [marked_events] if isinstance(marked_events, str) else marked_events
    return list(dict.fromkeys(events))


def is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False

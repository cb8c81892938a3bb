"""What pages and docstrings say of the source is so: the files that they name are there, the arrows are imports."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from support.repository import ROOT
from support.tables import table
from test_docs import BLOCK, PAGES
from test_imports import ALL, ROOMS, graph
from test_layout import tracked

# Of all that these two name by a path, every file is ours; other pages name files of their readers too.
MAPS = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "explanation" / "design.md"]
DESIGN = MAPS[1].read_text()
MODULES = dict(ALL)
FILES = [Path("/") / path.relative_to(ROOT) for path in tracked()]
PATHS = {str(one) for path in FILES for one in (path, *path.parents)}
PYTHON = re.compile(r"[\w./-]*\w\.py\b")
BELOW_A_FOLDER = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/[\w.-]*)`")
# What looks like a name of code, and the few that are other people's.
QUOTED = re.compile(r"`((?:[a-z_]\w*\.)*(?:[a-z]+_[a-z_]+|(?:[A-Z][a-z]+){2,}|\w+\(\)))`")
OF_OTHERS = {"anyio.connect_unix", "create_agent", "invoke_async"}
DOTTED = re.compile(r"\b(?:hooklatch_worker|hooklatch\.[a-z]\w+)(?:\.\w+)+")
WORD = re.compile(r"\w+")
PART = re.compile(
    rf"\b(?:supervisor|workers|tests|bench|examples|{'|'.join(name.partition('.')[2] for name in ROOMS)})/"
)


def is_there(path: str) -> bool:
    """Return whether a file or folder of the repository has this path, or one that ends in it."""
    return any(one.endswith(f"/{path.strip('./')}") for one in PATHS)


def is_a_module(dotted: str) -> bool:
    """Return whether this is one of our modules, or something that one of them names."""
    module, _, name = dotted.rpartition(".")
    return dotted in MODULES or (
        module in MODULES and re.search(rf"\b{name}\b", MODULES[module].read_text()) is not None
    )


@functools.cache
def docstrings_and_words() -> tuple[list[tuple[str, str]], set[str]]:
    """Return each docstring with its module, and every word of the source that is neither docstring nor comment."""
    docstrings: list[tuple[str, str]] = []
    words: set[str] = set()
    for name, path in ALL:
        tree = ast.parse(path.read_text())
        nodes = list(ast.walk(tree))
        notes = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        texts: list[str] = []
        for node in nodes:
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstrings.append((name, ast.get_docstring(node) or ""))
            if isinstance(node, ast.Constant):
                texts += [str(node.value)] if id(node) not in notes else []
                continue
            for field in node._fields:
                value = getattr(node, field)
                if isinstance(value, str):
                    texts.append(value)
                elif isinstance(value, list):
                    texts += [one for one in value if isinstance(one, str)]
        words.update(WORD.findall(" ".join(texts)))
    return docstrings, words


def arrows(picture: str) -> set[tuple[str, str]]:
    return set(re.findall(r"^ +(\w+) --> (\w+)$", picture, re.MULTILINE))


@table("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()

    paths = [path for path in PYTHON.findall(text) if page in MAPS or PART.match(path)]
    paths += BELOW_A_FOLDER.findall(text) if page in MAPS else []
    assert [path for path in paths if not is_there(path)] == []
    assert [name for name in DOTTED.findall(text) if not is_a_module(name)] == []


def test_every_file_that_a_docstring_names_is_there() -> None:
    texts, _ = docstrings_and_words()
    named = [(name, path) for name, text in texts for path in PYTHON.findall(text)]
    assert [one for one in named if not is_there(one[1]) and one[1] != "file.py"] == []  # `file.py:function`: a user's

    dotted = [(name, other) for name, text in texts for other in DOTTED.findall(text)]
    assert [one for one in dotted if not is_a_module(one[1])] == []


def test_every_name_of_code_that_a_docstring_quotes_is_there() -> None:
    docstrings, known = docstrings_and_words()

    quoted = [(name, one) for name, text in docstrings for one in QUOTED.findall(text) if one not in OF_OTHERS]
    assert len(quoted) > 100
    assert [one for one in quoted if one[1].rpartition(".")[2].rstrip("()") not in known] == []


def test_the_table_of_packages_names_their_folders_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \|[^|]+\| ((?:`\w+`(?:, )?)*) ?\|$", DESIGN, re.MULTILINE)

    found = {part: tuple(re.findall(r"\w+", rooms)) for part, rooms in rows if rooms}
    assert found == {part.removeprefix("hooklatch."): rooms for part, rooms in ROOMS.items()}


def test_the_pictures_of_packages_and_folders_show_imports_that_there_are() -> None:
    packages, folders = [text for language, text in BLOCK.findall(DESIGN) if language == "mermaid"][:2]
    imports = {
        (tuple(one.removeprefix("hooklatch.").split(".")), tuple(other.removeprefix("hooklatch.").split(".")))
        for one, others in graph().items()
        for other in others
    }

    assert arrows(packages) <= {(one[0], other[0]) for one, other in imports}
    assert {part for arrow in arrows(packages) for part in arrow} >= {part.partition(".")[2] or part for part in ROOMS}
    inside = {
        (one[1], other[1]) for one, other in imports if one[0] == other[0] == "service" and len(one) > 1 < len(other)
    }
    assert arrows(folders) <= inside
    assert {room for arrow in arrows(folders) for room in arrow} == set(ROOMS["hooklatch.service"])


def test_the_pictures_leave_out_no_way_from_one_folder_to_another() -> None:
    packages, folders = [text for language, text in BLOCK.findall(DESIGN) if language == "mermaid"][:2]
    imports = {(one, other) for one, others in graph().items() for other in others}
    for picture, depth, above in ((packages, 1, "hooklatch"), (folders, 2, "hooklatch.service")):
        between = {(folder_below(one, above, depth), folder_below(other, above, depth)) for one, other in imports}
        assert between - {(None, None)}
        shown = reachable(arrows(picture))
        assert {way for way in between if None not in way and way[0] != way[1] and way not in shown} == set()


def folder_below(module: str, above: str, depth: int) -> str | None:
    """Return the folder of `above` in which a module is, None if it is in none of them."""
    path = MODULES[module]
    parts = module.split(".")
    if parts[:depth] != above.split(".") or len(parts) <= depth:
        return None
    return parts[depth] if len(parts) > depth + 1 or path.name == "__init__.py" else None


def reachable(ways: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the pairs of which one leads to the other, over any number of arrows."""
    found = set(ways)
    while more := {(one, end) for one, middle in found for start, end in ways if middle == start} - found:
        found |= more
    return found

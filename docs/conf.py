"""How Sphinx makes the site of these pages: `make docs`.

The pages are plain Markdown that a forge shows as it is, so nothing in them is for Sphinx alone: the lists of index.md
become the navigation here, and links to files outside this folder, of which the site has no page, are left as text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent

project = "hooklatch"
author = copyright = "The hooklatch authors"  # noqa: A001  (Sphinx's name)
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["pictures"]

html_theme = "furo"
html_title = "hooklatch"
html_show_sphinx = False
html_copy_source = False

myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page's own choice

default_role = "code"  # docstrings write `name` as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": False}
add_module_names = False

SECTION = re.compile(r"^## (.+)\n\n((?:- \[.*\n)+)", re.MULTILINE)
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = r"(\w+)(?:\[\(?\"(.*?)\"\)?\])?"
EDGE = re.compile(rf'{NODE} (<-->|-->|---)(?:\|"?(.*?)"?\|)? {NODE}')
ARROWS = {"<-->": "<->", "-->": "->", "---": "--"}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)\s]*)\)")


def read(app: Sphinx, page: str, text: list[str]) -> None:
    """Prepare the text of a page for Sphinx."""
    if page == root_doc:
        text[0] = SECTION.sub(r"\g<0>\n" + "```{toctree}\n:hidden:\n:caption: \\1\n\nSECTION \\1\n```\n", text[0])
        for title, links in SECTION.findall(text[0]):
            pages = [f"{name} <{target}>" for name, target in re.findall(r"\[(.*?)\]\((.*?)\.(?:md|rst)\)", links)]
            text[0] = text[0].replace(f"SECTION {title}\n", "\n".join(pages) + "\n")
    if page == "decisions/index":
        text[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    text[0] = DIAGRAM.sub(lambda diagram: f"```text\n{list_edges(diagram[1])}```", text[0])
    folder = (HERE / page).parent
    text[0] = LINK.sub(lambda link: within(link, folder), text[0])


def list_edges(diagram: str) -> str:
    """Return a diagram as text, an edge a line: a forge draws it, and this site needs no script from elsewhere."""
    edges = EDGE.findall(diagram)
    names = {name: title for edge in edges for name, title in (edge[:2], edge[4:]) if title}
    lines = [
        f"{names.get(one, one)} {ARROWS[arrow]} {names.get(other, other)}" + (f": {label}" if label else "")
        for one, _, arrow, label, other, _ in edges
    ]
    return "\n".join(lines) + "\n" if lines else diagram


def within(link: re.Match[str], folder: Path) -> str:
    """Return a link as it is, or, if it leads out of the pages, its text with the file that it names."""
    path = (folder / link[2].partition("#")[0]).resolve()
    if not path.exists() or (path.suffix in (".md", ".rst") and path.is_relative_to(HERE)):
        return link[0]  # what is missing, Sphinx reports
    shown, named = link[1], str(path.relative_to(HERE.parent))
    return shown if named in shown else f"{shown} (`{named}`)"


def setup(app: Sphinx) -> None:
    app.connect("source-read", read)

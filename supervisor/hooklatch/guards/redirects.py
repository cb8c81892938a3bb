"""What stands behind a command: where it writes, what it reads, and words of its own.

The grammar takes the words after a redirection for a part of it: in `rm > log -rf /` the last two are words of rm.
Knows nodes of the grammar; no programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hooklatch.guards.command import Redirect, UnreadableCommandError
from hooklatch.guards.words import Word, read_all, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["NOTHING", "Behind", "behind", "fed", "unquoted"]

CLOSING = frozenset({">&-", "<&-"})  # they have no target
IN_BODY = re.compile(r"\\.|`((?:\\.|[^`\\])*)(`?)", re.DOTALL)
CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n?\Z")
ESCAPED = re.compile(r"\\([$`\\\n])")
# What may stand on the line of a here-document before a command, and before a word of its own.
GAPS = (re.compile(rb"(?:[ \t|&]|\\\n)*"), re.compile(rb"(?:[ \t]|\\\n)*"))


class Behind(NamedTuple):
    """What stands behind a command: redirections, what it reads by them if that is known, and words of its own.

    `scripts` are the texts between backticks of here-documents, `others` the commands on the line of one: `| sh`.
    """

    redirects: tuple[Redirect, ...] = ()
    given: str | None = None
    words: tuple[Word, ...] = ()
    scripts: tuple[str, ...] = ()
    others: tuple[Node, ...] = ()


NOTHING = Behind()


def behind(nodes: Sequence[Node], source: bytes) -> Behind:
    """Return what the redirections behind a command say, in the order of the text.

    Raises:
        UnreadableCommandError: the grammar has lost where a here-document begins.
    """
    redirects: list[Redirect] = []
    words: list[Word] = []
    scripts: list[str] = []
    others: list[Node] = []
    given: str | None = None
    for node in nodes:
        if node.type != "heredoc_redirect":
            redirect, more = redirect_of(node, source)
            redirects.append(redirect)
            words += more
            if redirect.operator.startswith("<"):
                is_text = redirect.operator == "<<<" and redirect.target.is_known
                given = redirect.target.text if is_text else None
            continue
        parts = {child.type: child for child in node.named_children if child.type.startswith("heredoc_")}
        start, body = parts["heredoc_start"], parts.get("heredoc_body")
        is_quoted = any(mark in text_of(start) for mark in "'\"\\")
        if body is not None and not is_quoted:
            scripts += backticked(body)
        text = heredoc_of(body, is_quoted=is_quoted)
        redirects.append(Redirect("<<", text))
        given = text.text if text.is_known else None
        if is_misread(node, parts, source, is_quoted=is_quoted):
            raise UnreadableCommandError("where its here-document ends is not clear; give it a line of its own")
        end = start.end_byte
        arguments = node.children_by_field_name("argument")
        for child in node.named_children:
            if child.type.startswith("heredoc_"):
                continue
            if not GAPS[child in arguments].fullmatch(source, end, child.start_byte):
                raise UnreadableCommandError("where its here-document begins is not clear; give it a line of its own")
            end = child.end_byte
            if child in arguments:
                words += read_all([child], source)
            elif child.type.endswith("_redirect"):
                redirect, more = redirect_of(child, source)
                redirects.append(redirect)
                words += more
            else:
                others.append(child)
    return Behind(tuple(redirects), given, tuple(words), tuple(scripts), tuple(others))


def is_misread(node: Node, parts: Mapping[str, Node], source: bytes, *, is_quoted: bool) -> bool:
    """Return whether a here-document ends elsewhere than the grammar says.

    It takes `A;` for the end of `<<A; ls`, a line with a blank behind the mark, and one that the line before continues.
    """
    mark = re.sub(r"['\"\\]", "", text_of(parts["heredoc_start"]))
    body, end = parts.get("heredoc_body"), parts.get("heredoc_end")
    within = "" if body is None else text_of(body)
    if end is not None:
        last = (source[source.rfind(b"\n", 0, end.end_byte) + 1 :].split(b"\n", 1)[0]).decode("utf-8", "replace")
        if (last.lstrip("\t") if node.children[0].type == "<<-" else last) != mark:
            return True
    if not is_quoted and CONTINUED.search(within):
        return True
    return re.search(rf"^\t*{re.escape(mark)}$", within, re.MULTILINE) is not None


def redirect_of(node: Node, source: bytes) -> tuple[Redirect, list[Word]]:
    """Return a redirection, and the words behind it."""
    operator = next((child.type for child in node.children if not child.is_named), ">")
    words = read_all([child for child in node.named_children if child.type != "file_descriptor"], source)
    if operator in CLOSING:
        return Redirect(operator, Word(operator, False)), words
    return Redirect(operator, words[0] if words else Word(text_of(node), False)), words[1:]


def heredoc_of(body: Node | None, *, is_quoted: bool) -> Word:
    """Return the text of a here-document; it is known if nothing in it is expanded, or its end is quoted."""
    text = "" if body is None else text_of(body)
    if body is None or is_quoted:
        return Word(text)
    is_known = not any(child.type != "heredoc_content" for child in body.named_children) and not any(backticked(body))
    return Word(ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text), is_known)


def backticked(body: Node) -> list[str]:
    """Return what the shell runs between the backticks of a here-document; the grammar does not look for those.

    Raises:
        UnreadableCommandError: one of them is not closed.
    """
    whole, begin = "", body.start_byte
    data = body.text or b""
    for child in body.named_children:
        if child.type != "heredoc_content":  # what is expanded there is read by itself
            whole += (
                data[begin - body.start_byte : child.start_byte - body.start_byte].decode("utf-8", "replace") + "$_"
            )
            begin = child.end_byte
    whole += data[begin - body.start_byte :].decode("utf-8", "replace")
    found = [one for one in IN_BODY.finditer(whole) if one[0].startswith("`")]
    if not all(one[2] for one in found):
        raise UnreadableCommandError("a backtick of its here-document is not closed; quote the document's end: <<'EOF'")
    return [unquoted(one[1]) for one in found]


def unquoted(text: str, *, is_in_quotes: bool = False) -> str:
    """Return what stands in backticks as the shell reads it; in double quotes it takes a backslash from those, too."""
    return re.sub(r'\\([\\`$"])' if is_in_quotes else r"\\([\\`$])", r"\1", text)


def fed(redirects: Sequence[Redirect]) -> str | None:
    return "<" if any(one.operator in ("<", "<<", "<<<", "<<-", "<&") for one in redirects) else None

"""Full names of hooks, each of which means one hook.  Knows names; does not know files, switches or sessions.

    fleet/no-push   builtin/lsp   plugin/acme.audit   global/no-rm                                 one hook each
    project:/srv/app/no-rm   session:s1/mine                                                       one hook each
    plugin:acme/*                                                              every hook of a plugin

A bare id, a plugin's name, and a short name (the file or the function of guards:no_rm) are accepted where they are
unambiguous.  A directory and a session id may contain slashes, so in
names that begin with one, a slash in the hook's id is written %2F, and a percent sign %25.  No id may look like a full
name.
"""

from __future__ import annotations

import re

__all__ = [
    "LIKE_A_NAME", "strip_scope", "is_name", "is_short_name", "read_full_name", "full_hook_name", "make_hook_id",
    "quote_name", "name_whole_plugin",
]  # fmt: skip

NAME = r"(?s:(?:fleet|builtin|global)/.+|plugin/.+\..+|(?:project|session):.+/[^/]+|plugin:.+/\*)"
# How a full name begins, as no id may.
LIKE_A_NAME = r"(?s)(?:fleet|builtin|plugin|global|project|parent|session)(?:/|:.*/)"


def make_hook_id(stem: str, function: str) -> str:
    """Return the id of a function in a file; that of a file is enough where both have one name."""
    return stem if stem == function else f"{stem}:{function}"


def is_short_name(text: str, hook_id: str) -> bool:
    """Return whether a text is the file, the function or another end of an id: "git" or "push" for "git:push"."""
    bare = hook_id.partition("@")[0]
    return f"{bare.removesuffix('.py')}:".startswith(f"{text.removesuffix('.py')}:") or bare.endswith(
        (f":{text}", f".{text}", f"/{text}")
    )


def full_hook_name(layer: str, hook_id: str, *, project: str = "", session: str = "") -> str:
    """Return a hook's full name, from its layer or from the project or session that it belongs to."""
    if project or session:
        escaped = hook_id.replace("%", "%25").replace("/", "%2F")
        return f"project:{project}/{escaped}" if project else f"session:{session}/{escaped}"
    return f"{layer}/{hook_id}"


def read_full_name(layer: str | None, hook_id: str | None, name: str | None) -> str:
    """Return a hook's full name out of these fields of a decision or an outcome; empty if no hook decided."""
    return (name or "/".join(filter(None, (layer, hook_id)))) if hook_id else ""


def name_whole_plugin(plugin: str) -> str:
    """Return the name for all hooks of a plugin."""
    return f"plugin:{plugin}/*"


def quote_name(name: str) -> str:
    """Quote a name for a shell."""
    import shlex  # imported here: few commands name a hook for a shell, and each would wait for it

    return shlex.quote(name)


def is_name(text: str) -> bool:
    """Return whether a text is a full name, as opposed to an id."""
    return re.fullmatch(NAME, text) is not None


def strip_scope(name: str) -> str:
    """Return the id within a full name, or the plugin within the name of a whole plugin."""
    kind, separator, scoped_name = re.split("([:/])", name, maxsplit=1)
    if separator == "/":
        return scoped_name
    if kind == "plugin":
        return scoped_name.removesuffix("/*")
    # In this order, the reverse of escaping: "%252F" is the id "%2F".
    return scoped_name.rpartition("/")[2].replace("%2F", "/").replace("%25", "%")

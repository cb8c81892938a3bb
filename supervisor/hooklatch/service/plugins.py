"""Installed packages that bring hooks.  Knows their metadata; imports none of them: that is a worker's work.

A plugin is an entry point of the group `hooklatch.plugins`: its name is the plugin's, its value the module whose
functions marked with @hook are its hooks.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

import msgspec

from hooklatch.core.definitions import is_id
from hooklatch.service.configuration import Diagnostic
from hooklatch_worker.markers import Marker
from hooklatch_worker.wire import Declared, Source

__all__ = ["GROUP", "PLUGIN", "Plugin", "in_force", "installed"]

GROUP = "hooklatch.plugins"
PLUGIN = "plugin:"  # before its name, where its manifest is kept beside those of files


class Plugin(msgspec.Struct, frozen=True):
    """A plugin by name, or what is wrong with it; `package` is the distribution that brings it."""

    name: str
    module: str
    package: str = ""
    fault: str | None = None

    @property
    def key(self) -> str:
        return PLUGIN + self.name

    @property
    def source(self) -> Source:
        return Source("module", self.module)

    def named(self, declared: Declared) -> Marker:
        """Give a function's marker with the plugin's name in its id."""
        return msgspec.structs.replace(declared.marker, id=f"{self.name}.{declared.marker.id or declared.function}")


def installed() -> list[Plugin]:
    """Find the plugins of all installed packages, by name."""
    found: dict[str, Plugin] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        plugin = read(point)
        other = found.get(plugin.name)
        if other is not None and other.module != plugin.module:
            fault = f"{other.package} and {plugin.package} both bring a plugin of this name; remove one of them"
            plugin = msgspec.structs.replace(other, fault=fault)
        found[plugin.name] = plugin
    return [found[name] for name in sorted(found)]


def read(point: importlib.metadata.EntryPoint) -> Plugin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
    if not is_id(point.name):
        return Plugin(repr(point.name)[:80], "", package, "its name is no line of at most 200 characters")
    module, colon, _ = point.value.partition(":")
    if colon or not all(part.isidentifier() for part in module.strip().split(".")):
        return Plugin(point.name, "", package, f"its entry point names no module but {point.value!r}")
    return Plugin(point.name, module.strip(), package)


def in_force(
    known: Mapping[str, Plugin], had_hooks: set[str], diagnostics: list[Diagnostic], *, is_explicit: bool
) -> list[Plugin]:
    """Give the plugins to load; one that had hooks and is gone stays, with a complaint, until an explicit reload."""
    found = {plugin.name: plugin for plugin in installed()}
    diagnostics.extend(
        Diagnostic(plugin.key, 0, f"plugin {plugin.name!r}: {plugin.fault}")
        for plugin in found.values()
        if plugin.fault
    )
    for name in had_hooks - set(found) if not is_explicit else ():
        text = "it had hooks and is not installed any more; to accept that: hooklatch reload"
        diagnostics.append(Diagnostic(PLUGIN + name, 0, text))
        found[name] = known.get(name) or Plugin(name, "", fault=text)
    return [found[name] for name in sorted(found)]

"""The data of one `@hook` marker: an event and the hook's settings.  Knows shapes; does not know functions."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = ["MAX_TIMEOUT", "Marker"]

MAX_TIMEOUT = 600.0  # seconds; a larger number is most likely in milliseconds


class Marker(Struct, frozen=True, kw_only=True):
    """One event that a function serves, with the settings of that hook."""

    event: str
    match: str | list[str] | dict[str, Any] | None = None
    id: str | None = None
    priority: int = 100
    timeout: float | None = None
    description: str = ""
    enabled: bool = True
    observe: bool = False
    optional: bool = False
    amends: bool = False
    config: dict[str, Any] | None = None
    runtime: Literal["trio", "asyncio"] = "trio"

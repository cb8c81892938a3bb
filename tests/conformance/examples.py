"""The examples on a page for people who come from another system: their code, run as it stands there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.daemons import Daemon

__all__ = ["blocks", "by_page", "host_of"]


def blocks(page: Path) -> list[str]:
    """Return the code of a page, but for its port, which tests/docs/test_ports.py runs whole."""
    before, port, rest = page.read_text().partition("\n## A port in five minutes\n")
    text = before + (rest[rest.index("\n## ") :] if port else "")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def by_page(page: Path, daemon: Daemon) -> Callable[..., dict[str, Any]]:
    """Put a page's hooks beside the daemon's own; give what makes a definition of one."""
    for number, text in enumerate(blocks(page)):
        daemon.write(f"page_{number}.py", text)
    return lambda event, function, number=0: {"event": event, "run": f"page_{number}.py:{function}"}


def host_of(page: Path, number: int) -> dict[str, Any]:
    """Return the functions of a block that shows a host."""
    functions: dict[str, Any] = {}
    exec(compile(blocks(page)[number], page.name, "exec"), functions)
    return functions

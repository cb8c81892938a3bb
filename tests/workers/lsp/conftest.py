"""The workspace for tests of the built-in hook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch_worker.lsp import diagnostics
from hooklatch_worker.lsp.servers import LanguageServers
from support.daemons import nothing_left
from workers.lsp.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """Yield an empty workspace with ruff on PATH; no server and no descriptor of it is left afterwards."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.setattr(diagnostics, "SERVERS", LanguageServers())
    with nothing_left():
        yield Workspace(folder)
        diagnostics.close_servers()

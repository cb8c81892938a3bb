"""One daemon for each file of rows; a row that needs files of its own runs a second one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.native import Place
from support.commands import new_place, serving
from support.daemons import Daemon
from support.shared_daemon import daemon_in_thread

CALLBACKS = Path(__file__).parent / "callbacks"


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with new_place({}) as home, serving(home) as daemon:
        yield daemon.ready["agent"]


@pytest.fixture(scope="module")
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Run one daemon with the files that a module names, in a thread, since each row is a trio run of its own."""
    with daemon_in_thread(tmp_path_factory.mktemp("daemon"), request.module.FILES) as daemon:
        yield daemon


@pytest.fixture
def place(agent: str, tmp_path: Path) -> Place:
    return Place(agent, tmp_path)


@pytest.fixture(scope="module")
def radium_hooks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy that nobody else may write, whatever the repository's own files allow."""
    path = tmp_path_factory.mktemp("hooks") / "hooks.py"
    path.write_text((CALLBACKS / "radium.py").read_text())
    return str(path)

"""Settings that hold for every test."""

import signal
from multiprocessing import resource_tracker

import pytest

pytest.register_assert_rewrite("support")


def pytest_configure() -> None:
    # A shell without job control has what it starts by `&` ignore these, and every command under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which tests one process has to run one after the other, where several run them (`--dist loadgroup`).

    Those that are marked `alone`, and those of a file that share a daemon: it would be started in each process.
    """
    if not config.pluginmanager.has_plugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
        elif any(definition.scope == "module" for definition in fixtures_of(item)):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def fixtures_of(item: pytest.Item) -> list[pytest.FixtureDef[object]]:
    info = item._fixtureinfo  # type: ignore[attr-defined]
    return [definition for found in info.name2fixturedefs.values() for definition in found]


@pytest.fixture(scope="session", autouse=True)
def one_resource_tracker() -> None:
    """Start the helper process that multiprocessing keeps beside spawned children once, not with each daemon."""
    resource_tracker.ensure_running()

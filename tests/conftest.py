"""Settings that hold for every test."""

import signal
from multiprocessing import resource_tracker

import pytest

pytest.register_assert_rewrite("support")


def pytest_configure() -> None:
    # A shell without job control has what it starts by `&` ignore these, and every command under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def one_resource_tracker() -> None:
    """Start the helper process that multiprocessing keeps beside spawned children once, not with each daemon."""
    resource_tracker.ensure_running()

"""Settings that hold for every test."""

import gc
import os
import signal
from typing import Any

import pytest

pytest.register_assert_rewrite("support")
import support.profiles  # noqa: E402, F401 - the budget of each property, also of one that does not name it
from support.compilers import with_kept_programs  # noqa: E402

# What takes a machine to its limits: never two of these at once.
ALONE = {
    "tests/chaos/test_chaos.py",
    "tests/e2e/test_handover.py",
    "tests/model/test_real_workers.py",
    "tests/overload/test_descriptors.py",
    "tests/overload/test_floods.py",
    "tests/overload/test_payload_bytes.py",
    "tests/processes/test_limits_of_trees.py",
    "tests/processes/test_stress.py",
}
# Seconds for each test, and nothing that two of them share: one process after the other takes one.
APART = {"tests/test_bench.py"}
FIRST = {
    *ALONE,
    *APART,
    "tests/cli/daemon/test_serve.py",
    "tests/cli/hosts/test_doctor.py",
    "tests/cli/hosts/test_install.py",
    "tests/clients/test_real_daemon.py",
    "tests/entry/test_silence.py",
    "tests/fleet/system/test_system.py",
    "tests/fuzz/test_bounds.py",
    "tests/model/test_fake_workers.py",
    "tests/real_hosts/test_opencode.py",
    "tests/real_hosts/test_qwen.py",
    "tests/service/loading/test_hung_disk.py",
}


def pytest_configure(config: pytest.Config) -> None:
    if gone := sorted(file for file in FIRST if not (config.rootpath / file).is_file()):
        raise pytest.UsageError(f"tests/conftest.py orders tests of files that are not there: {', '.join(gone)}")
    os.environ["PATH"] = with_kept_programs(os.environ.get("PATH", os.defpath))
    # A shell without job control has what it starts by `&` ignore these, and every command under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        # By nohup: this process goes on to survive, and what it starts has the signal as it is for everybody.
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Have the tests of a file run in one process, which starts once what they share, and those of `ALONE` in one too.

    Only those of `APART` go to any process.

    (Its own groups are lost on pytest 9.2, which takes no change of a test's name.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file in APART:
                return nodeid
            return "alone" if file in ALONE else file

    config.option.loadscopereorder = False  # else the files with few tests, which take the longest, come last
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes the longest, so that no process is left with it at the end."""
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in FIRST)


def pytest_collection_finish() -> None:
    """Keep what thousands of tests are made of out of each garbage collection."""
    gc.collect()
    gc.freeze()

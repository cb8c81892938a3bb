"""Settings that hold for every test."""

import gc
import os
import signal
import sys
from collections import Counter
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
LINUX_ONLY = "of Linux alone: "
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


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add `--portable`, and begin to play: conftest files below this one import what is under test."""
    parser.addoption("--portable", action="store_true", help="on the modules of systems other than Linux")
    config: Any = pluginmanager.get_plugin("pytestconfig")
    has_option = "--portable" in config.invocation_params.args or getattr(config.option, "portable", False)
    is_controller = (
        getattr(config.known_args_namespace, "numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    )
    if has_option and not is_controller:
        from systems.play import begin_run

        begin_run()


def pytest_configure(config: pytest.Config) -> None:
    if gone := sorted(file for file in FIRST if not (config.rootpath / file).is_file()):
        raise pytest.UsageError(f"tests/conftest.py orders tests of files that are not there: {', '.join(gone)}")
    is_playing = "systems.play" in sys.modules or config.getoption("numprocesses", None)
    if config.getoption("portable") and not is_playing:
        raise pytest.UsageError("--portable has to stand on the command line: from PYTEST_ADDOPTS it comes too late")
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes the longest, so that no process is left with it at the end."""
    items.sort(key=lambda item: item.nodeid.partition("::")[0] not in FIRST)
    if config.getoption("portable"):
        for item in items:
            for marker in item.iter_markers("linux_only"):
                item.add_marker(pytest.mark.skip(reason=f"{LINUX_ONLY}{marker.args[0]}"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many tests were left out since they are about what Linux alone has, by reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    counts = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in counts.most_common():
        if reason.startswith(LINUX_ONLY):
            terminalreporter.write_line(f"left out, {count}: {reason}")


def pytest_collection_finish() -> None:
    """Keep what thousands of tests are made of out of each garbage collection."""
    gc.collect()
    gc.freeze()

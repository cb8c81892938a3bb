"""hooklatch.testing with real workers.

Slow: they are processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.testing import Worker, assert_amends, assert_denies, assert_fails, assert_passes, event
from hooklatch.testing.in_process import NotAHookError
from hooklatch.testing.workers import HooksLoadError
from support import daemons
from support.survivors import nobody_survives
from testing import guards_of_an_author as guards

pytestmark = pytest.mark.slow

EVENT = '[[event]]\nname = "deploy_requested"\nmodel = "gate"\nverdicts = ["deny"]\nmatch = "target"\n'
TASK = event("pre_tool_use", tool_name="Task")


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    with daemons.nothing_left(), nobody_survives():
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("author") / "guards.py"
    shutil.copyfile(str(guards.__file__), path)
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def worker(file: Path) -> Iterator[Worker]:
    with Worker(file, settings=EVENT) as worker:
        yield worker


def test_hooks_answer_in_a_worker_as_they_do_in_process(worker: Worker) -> None:
    push = event("pre_tool_use", tool_input={"command": "git push --force"})
    write = event("pre_tool_use", tool_name="Write", tool_input={})

    assert assert_denies(worker, push, reason="force").decision.outcomes[0].stdout == "looking at git push --force\n"
    assert_passes(worker["budget"], push)
    assert_amends(worker["marks"], write, {"tool_input": {"dry": True}})
    assert_amends(worker, event("pre_tool_use", tool_name="Write", config={"mark": "other"}))
    assert "KeyError: 'oops'" in assert_fails(worker["note"], event("post_tool_use")).decision.outcomes[0].stderr
    assert_denies(worker["no_friday"], event("deploy_requested", defined={"model": "gate", "verdicts": ["deny"]},
                                             target="prod"))  # fmt: skip
    with pytest.raises(NotAHookError, match="budget is not a hook of stop, but of pre_tool_use"):
        worker["budget"].run(event("stop"))


def test_what_is_remembered_stays_until_it_is_cleared(worker: Worker) -> None:
    for _ in range(2):
        assert_passes(worker, TASK)
    assert_denies(worker, TASK, reason="3 tasks")

    worker.clear()
    assert_passes(worker, TASK)


def test_what_is_tested_is_the_file_as_it_is(file: Path, worker: Worker) -> None:
    push, code = event("pre_tool_use", tool_input={"command": "git push --force"}), file.read_text()
    try:
        file.write_text(code.replace("force pushes", "no pushes"))
        assert_denies(worker["no_force_push"], push, reason="no pushes")
        file.write_text("import hooklatch  # no hooks\n# hooklatch: no hooks\n")
        with pytest.raises(NotAHookError, match="no_force_push is not a hook"):
            worker["no_force_push"].run(push)
        file.write_text(f"{code}\n)")
        with pytest.raises(HooksLoadError, match="SyntaxError"):
            worker.run(push)
    finally:
        file.write_text(code)
    assert_denies(worker["no_force_push"], push, reason="force pushes")


def test_a_file_that_does_not_load_is_said_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from hooklatch import hook\n@hook('stop', matc=1)\ndef f(event): ...\n")
    (tmp_path / "broken.py").chmod(0o600)

    with pytest.raises(HooksLoadError, match=r"broken\.py:2: TypeError: @hook has no option 'matc'"):
        Worker(tmp_path / "broken.py")
    with pytest.raises(HooksLoadError, match="is not there"):
        Worker(tmp_path / "gone.py")

"""What the kernel reports of watched files: each change of what `stamp_path` says of them, and little else."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from hooklatch.path_lookup import stamp_path
from hooklatch.service.loading import hints
from hooklatch.service.loading.hints import KernelHints
from hooklatch.service.loading.watch import STAT_INTERVAL
from hooklatch_worker.systems import darwin_watches, linux_watches
from support.daemons import nothing_left, running_daemon
from support.edited import GUARDS
from systems.stand_in import FileQueue

pytestmark = pytest.mark.linux_only("hints of changed files (inotify)")
MOST = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


class QueueWatches(darwin_watches.DarwinWatches):
    """Watches by macOS's calls, which Linux's answer."""

    def __init__(self) -> None:
        super().__init__(FileQueue())


@pytest.fixture(params=[linux_watches.FileWatches, QueueWatches])
def is_complete(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Have hints by the watches of each system; return whether these tell of each change."""
    monkeypatch.setattr(hints, "FileWatches", request.param)
    return bool(request.param.IS_COMPLETE)


async def listen(kernel: KernelHints, tell: Callable[[], object]) -> None:
    await kernel.hint()
    tell()


def replaced(top: Path) -> None:
    (top / "above" / "folder" / "new").write_text("new")
    (top / "above" / "folder" / "new").replace(top / "above" / "folder" / "file")


def moved_and_made_anew(top: Path) -> None:
    (top / "above").rename(top / "gone")


def link_turned(top: Path) -> None:
    (top / "new_link").symlink_to("elsewhere")
    (top / "new_link").replace(top / "link")


def made(top: Path) -> None:
    (top / "missing").mkdir()


def emptied_and_held_open(top: Path) -> None:
    held = os.open(top / "empty", os.O_RDONLY)  # as by a shell that is in there: the kernel does not report its end
    (top / "empty").rmdir()
    (top / "empty").mkdir()
    os.close(held)


def linked_elsewhere(top: Path) -> None:
    os.link(top / "above" / "folder" / "file", top / "elsewhere" / "hard")
    (top / "elsewhere" / "hard").write_text("by another name")


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("above/folder/file", lambda top: (top / "above/folder/file").write_text("x")),
        ("above/folder/file", lambda top: (top / "above/folder/file").unlink()),
        ("above/folder/file", lambda top: (top / "above/folder/file").chmod(0o600)),
        ("above/folder/file", lambda top: (top / "above").chmod(0o700)),
        ("above/folder/file", replaced),
        ("above/folder/file", moved_and_made_anew),
        ("above/folder/file", linked_elsewhere),
        ("above/folder", lambda top: (top / "above/folder/another").touch()),
        ("empty", emptied_and_held_open),
        ("link/folder/file", link_turned),
        ("link/folder/file", lambda top: (top / "above/folder/file").write_text("x")),
        ("missing/deep/file", made),
    ],
)
async def test_each_change_of_a_covered_path_is_reported(
    tmp_path: Path, path: str, change: Callable[[Path], object], is_complete: bool
) -> None:
    top, told = tmp_path, trio.Event()
    (top / "above" / "folder").mkdir(parents=True)
    (top / "above" / "folder" / "file").touch(0o644)
    (top / "elsewhere").mkdir()
    (top / "empty").mkdir()
    (top / "link").symlink_to("above")
    with nothing_left(), closing(KernelHints()) as kernel:
        covered = kernel.cover([f"{top}/{path}"])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, kernel, told.set)
            before = stamp_path(f"{top}/{path}")
            change(top)
            with trio.fail_after(10):
                await told.wait()
            nursery.cancel_scope.cancel()

    assert covered == ({f"{top}/{path}"} if is_complete else set())
    assert path.startswith("missing") or stamp_path(f"{top}/{path}") != before


async def test_what_happens_beside_a_watched_file_wakes_nobody(tmp_path: Path) -> None:
    told: list[bool] = []
    (tmp_path / "file").touch()
    with closing(KernelHints()) as kernel:
        kernel.cover([str(tmp_path / "file")])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, kernel, lambda: told.append(True))
            (tmp_path / "another").write_text("x")
            (tmp_path / "another").unlink()
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()

    assert told == []


@pytest.mark.usefixtures("is_complete")
async def test_what_strangers_do_in_a_directory_on_the_way_is_not_reported_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    with closing(KernelHints()) as kernel:
        kernel.cover([str(folder / "file"), str(folder / "missing")])
        (tmp_path / "above" / "another").touch()
        (tmp_path / "above" / "another").unlink()

        assert not select.select([kernel._watches.fileno()], [], [], 0)[0]

        (folder / "file").unlink()
        folder.rmdir()
        kernel._is_hint()
        kernel.cover([str(folder / "file"), str(folder / "missing")])
        folder.mkdir()

        assert kernel._is_hint()


async def test_reports_that_were_lost_count_as_one_of_a_change(tmp_path: Path) -> None:
    told = trio.Event()
    others = [tmp_path / "one", tmp_path / "another"]
    for path in (tmp_path / "file", *others):
        path.touch()
    with closing(KernelHints()) as kernel:
        kernel.cover([str(tmp_path / "file")])
        for number in range(MOST + 1):  # of no interest; two that are equal would be one
            os.utime(others[number % 2])
        (tmp_path / "file").write_text("x")  # nothing is left of this one
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, kernel, told.set)
            with trio.fail_after(10):
                await told.wait()
            nursery.cancel_scope.cancel()


def test_what_may_be_on_another_machine_is_not_covered() -> None:
    with closing(KernelHints()) as kernel:
        assert kernel.cover(["/proc/self/status", "/nothing/here"]) == {"/nothing/here"}


@pytest.mark.slow
async def test_a_daemon_whose_files_are_local_looks_at_them_rarely_and_sees_each_change(tmp_path: Path) -> None:
    """Slow: a daemon, whose first look comes after 2 s."""
    async with running_daemon(tmp_path, {"hooks.toml": "", "hooks.d/guards.py": GUARDS}) as daemon:
        file_watch = daemon.parts.file_watch
        with trio.fail_after(30):
            while file_watch.interval == STAT_INTERVAL:  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.02)
            revision = daemon.parts.registries.view.revision
            daemon.write("hooks.d/guards.py", GUARDS.replace("one", "two"))
            while daemon.parts.registries.view.revision == revision:  # noqa: ASYNC110
                await trio.sleep(0.02)

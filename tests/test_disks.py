"""Which disk a path leads to, and that a look at one that does not answer ends; no look of the service is elsewhere."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.disks import LookupThread, is_plain, limit_look, resolve_path
from hooklatch_worker.systems.linux_disks import list_remote_mounts
from support.repository import ROOT
from support.tables import table

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:30 / /mnt/a\040b rw shared:1 - nfs4 server:/x rw
31 27 0:31 / /auto rw - autofs systemd-1 rw
32 31 0:32 / /auto rw - xfs /dev/vdb rw
33 27 0:33 / /new rw - somethingnew none rw
34 27 0:30 /sub /mnt/bound rw - nfs4 server:/x rw
""".strip()


def test_what_is_not_known_to_be_local_is_away_and_what_lies_over_it_counts() -> None:
    assert list_remote_mounts(MOUNTINFO) == {"/proc": "0:21", "/mnt/a b": "0:30", "/new": "0:33", "/mnt/bound": "0:30"}


# Below the folder `t`, in which `away` and `real/away` are mount points of disks that must not be touched.
@table(
    ("path", "disk", "end"),
    [
        ("real/file", None, "real/file"),
        ("away", "A", "away"),
        ("away/x/y", "A", "away"),
        ("to_away/x", "A", "away"),
        ("to_real/file", None, "real/file"),
        ("to_real/away/x", "B", "real/away"),
        ("to_real/../away", "A", "away"),
        ("nothing/x", None, "nothing/x"),
        ("real/file/x", None, "real/file/x"),
        ("nothing/../to_away", "A", "away"),
        ("absolute", "B", "real/away"),
        (".//real/./file", None, "real/file"),
    ],
)
def test_a_way_ends_before_a_disk_that_is_away(tmp_path: Path, path: str, disk: str | None, end: str) -> None:
    top = tmp_path.resolve()
    (top / "real").mkdir(exist_ok=True)
    (top / "real" / "file").touch()
    for name, target in (("to_away", "away"), ("to_real", "real"), ("absolute", str(top / "real" / "away" / "x"))):
        if not (top / name).is_symlink():
            (top / name).symlink_to(target)
    away = {str(top / "away"): "A", str(top / "real" / "away"): "B"}

    way = resolve_path(f"{top}/{path}", away)

    assert (way.disk, way.end) == (disk, str(top / end))
    if is_plain(f"{top}/{path}", away):
        assert way == (f"{top}/{path}", None, way.steps)


@pytest.mark.parametrize(
    ("path", "is_known"),
    [("missing/x", True), ("file", True), ("link/x", False), ("away/x", False), ("file/x", False), ("x/../y", False)],
)
def test_what_is_absent_is_looked_at_directly_only_on_local_disks_without_links(
    tmp_path: Path, path: str, is_known: bool
) -> None:
    top = tmp_path.resolve()
    (top / "file").touch()
    (top / "link").symlink_to("nowhere")

    assert is_plain(f"{top}/{path}", {str(top / "away"): "A"}, is_there=False) == is_known


def test_a_loop_of_links_ends_and_a_disk_that_answers_is_passed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "away").mkdir()

    with pytest.raises(OSError, match="Too many levels"):
        resolve_path(str(tmp_path / "loop"), {})

    assert resolve_path(str(tmp_path / "away"), {str(tmp_path / "away"): "A"}, ["A"]).disk is None
    assert resolve_path(str(tmp_path), {"/": "R"}).disk == "R"


def test_a_look_that_is_late_is_the_only_one_until_it_returns() -> None:
    lane, goes_on, begun = LookupThread("the disk", timeout=0.02), threading.Event(), list[int]()

    def hang() -> None:
        begun.append(threading.get_ident())
        goes_on.wait()

    for _ in range(3):
        with pytest.raises(TimeoutError, match="the disk has not answered since"):
            lane.look(hang)
    stuck = next(thread for thread in threading.enumerate() if thread.ident == begun[0])
    goes_on.set()
    stuck.join()

    assert len(begun) == 1
    assert lane.look(lambda: "again") == "again"


def test_what_a_look_raises_is_raised_with_its_path(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/")

    @limit_look
    def late(path: str) -> None:
        raise TimeoutError(110, "late", "another")

    with pytest.raises(TimeoutError) as caught:
        late(str(link))

    assert (caught.value.filename, caught.value.strerror) == (str(link), "late")
    with pytest.raises(ValueError, match="garbage"):
        limit_look(lambda path: [][0] if path else int("garbage"))("")


# -- nobody else looks -------------------------------------------------------------------------------------------

LOOKS = {
    "os.stat", "os.lstat", "os.listdir", "os.scandir", "os.readlink", "os.access", "os.open", "os.path.exists",
    "os.path.lexists", "os.path.isfile", "os.path.isdir", "os.path.islink", "os.path.realpath", "os.path.getmtime",
    "os.path.samefile", "open", "open_regular", "open_regular_file", "safety.read_safely",
}  # fmt: skip
# Functions that wait for a disk: from the event loop, `in_thread` calls them.
WAITING = {
    "stamp_path", "stamp_paths", "look_up_path", "list_directory", "read_safely", "status_at", "is_written",
    "measure_quiet",
    "find_place", "find_real_path", "read_source_version", "prepare_version", "add_source_lock", "pin_files",
    "pin_below", "stamp_tree", "stamp_project", "read_files", "read_project", "discover_plugins",
    "trust.stamp_project", "trust.pin_files", "trust.stamp_tree", "unit.read_newer", "find_similar_folders",
    "find_wanted_version", "find_wanted_versions",
}  # fmt: skip
OURS = {
    "file_safety.py": "make_private is for the daemon's own directories",
    "config/state_file.py": "in the daemon's state directory",
    "dispatch/state_journal.py": "in the daemon's state directory",
    "fleet/host/policy_file.py": "in the daemon's state directory",
    "fleet/host/trust.py": "in the daemon's runtime directory",
    "loading/hints.py": "what is known to be on local disks",
    "folders.py": "the daemon's own directories, before it serves",
    "logs.py": "the daemon's own log, by the thread that writes it",
    "socket_activation.py": "sockets that were passed on, before it serves",
    "loading/plugins.py": "in the lane of packages",
    "transport/server.py": "/dev/null",
}


def calls(node: ast.AST, within: str = "") -> Iterator[tuple[ast.Call, str]]:
    """Yield each call with what it is in: "async", "in time" or another function; what a lambda does is done later."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.AsyncFunctionDef():
                inside = "async"
            case ast.FunctionDef(decorator_list=decorators):
                names = {ast.unparse(one) for one in decorators}
                inside = "in time" if names & {"limit_look", "limit_tree_look"} else "function"
            case ast.Lambda():
                inside = "function"
            case _:
                inside = within
        if isinstance(child, ast.Call):
            yield child, within
        yield from calls(child, inside)


def test_the_service_looks_at_files_in_time_and_not_from_the_event_loop() -> None:
    package = ROOT / "supervisor" / "hooklatch"
    modules = [*(package / "service").rglob("*.py"), *(package / "fleet/host").rglob("*.py")]
    modules += [package / "file_safety.py", package / "path_lookup.py"]
    untimed, waiting, ours = list[str](), list[str](), set[str]()
    for path in sorted(modules):
        name = path.relative_to(package).as_posix().removeprefix("service/")
        for call, within in calls(ast.parse(path.read_text())):
            called = ast.unparse(call.func)
            if called in LOOKS and within != "in time":
                ours.add(name)
                untimed += [f"{name}:{call.lineno} {called}"] if name not in OURS else []
            if called in WAITING and within == "async":
                waiting.append(f"{name}:{call.lineno} {called}")

    assert not untimed, f"a disk may never answer: decorate what looks with limit_look of hooklatch/disks.py: {untimed}"
    assert not waiting, f"the event loop would wait: use in_thread of hooklatch/threads.py: {waiting}"
    assert ours == OURS.keys(), "the list names what does not look"
    found = [within for _, within in calls(ast.parse("async def f():\n stamp_path(x)\n lambda: stamp_path(y)"))]
    assert found == ["async", "function"]

"""What cannot be looked at may hold a guard: a start, a reload and a restart deny, or keep what was in force.

Slow as a whole: most of it is about daemons that start.  Links and files in the wrong place bind root too.
"""

from __future__ import annotations

import errno
import resource
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch.path_lookup import (
    DirectoryNames,
    PathAbsent,
    PathFault,
    PathFound,
    is_passing,
    list_directory,
    look_up_path,
    stamp_path,
)
from hooklatch.service.loading.plan import EVERYTHING
from support.daemons import Client, Daemon, running_daemon
from support.edited import CONFIG, GUARDS, bash, is_green, is_red
from support.packages import install
from support.strangers import as_nobody, as_root, bound_by_permissions, folder_for_all

FILES = {"hooks.toml": "", "hooks.d/guards.py": GUARDS}
SWITCHED_OFF = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash", enabled=False)
def no(event):
    return deny("on after all")
"""


# -- one look ----------------------------------------------------------------------------------------------------


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def plain(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize(
    ("make", "name", "said"),
    [
        (dangling, "x", "is a link that leads nowhere"),
        (dangling, "x/below", "is a link that leads nowhere"),
        (dangling, "x/below/that", "is a link that leads nowhere"),
        (loop, "x", "Too many levels"),
        (loop, "x/below", "Too many levels"),
        (plain, "x/below", "Not a directory"),
        (plain, "n" * 300, "File name too long"),
        (plain, "a\0b", "null byte"),
    ],
)
def test_what_cannot_be_looked_at_is_neither_there_nor_not(
    tmp_path: Path, make: Callable[[Path], None], name: str, said: str
) -> None:
    make(tmp_path / "x")

    for seen in (look_up_path(f"{tmp_path}/{name}"), list_directory(f"{tmp_path}/{name}")):
        assert isinstance(seen, PathFault)
        assert said in seen.reason
        assert not seen.is_passing


def test_what_is_not_there_is_absent_and_what_is_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    plain(tmp_path / "folder/b")
    plain(tmp_path / "folder/a")
    (tmp_path / "link").symlink_to("folder")

    for name in ("nothing", "nothing/below/that", "folder/nothing"):
        assert look_up_path(f"{tmp_path}/{name}") == list_directory(f"{tmp_path}/{name}") == PathAbsent()
    for name in ("folder", "link"):
        assert look_up_path(f"{tmp_path}/{name}") == PathFound(is_folder=True)
        assert list_directory(f"{tmp_path}/{name}") == DirectoryNames(["a", "b"])
    assert look_up_path(f"{tmp_path}/link/a") == PathFound(is_folder=False)
    fault = list_directory(f"{tmp_path}/folder/a")
    assert isinstance(fault, PathFault)
    assert "Not a directory" in fault.reason


@as_root
def test_a_folder_without_its_permissions_is_no_empty_one() -> None:
    with folder_for_all() as folder:
        for name, mode in (("unlisted", 0o711), ("closed", 0o700)):
            (folder / name).mkdir()
            plain(folder / name / "guard.py")
            (folder / name).chmod(mode)
        paths = [folder / "unlisted", folder / "closed/guard.py", folder / "closed/nothing", folder / "closed/a/b"]
        seen = as_nobody(lambda: [list_directory(str(paths[0])), *(look_up_path(str(path)) for path in paths[1:])])

    assert seen.count("Permission denied") == len(paths)
    assert "Absent" not in seen


def test_the_watch_tells_what_cannot_be_read_from_what_is_not_there(tmp_path: Path) -> None:
    stamps = {stamp_path(str(tmp_path / "x"))}
    for make in (dangling, loop, plain):
        make(tmp_path / "x")
        stamps.add(stamp_path(str(tmp_path / "x")))
        stamps.add(stamp_path(str(tmp_path / "x/below")))
        (tmp_path / "x").unlink()

    assert len(stamps) == 6  # of those below, the dangling one's is that of nothing


@pytest.mark.parametrize(
    ("number", "passes"),
    [(errno.EMFILE, True), (errno.ENFILE, True), (errno.EIO, True), (errno.EACCES, False), (errno.ELOOP, False)],
)
def test_a_shortage_is_tried_again_and_a_missing_permission_is_watched(number: int, passes: bool) -> None:
    assert is_passing(OSError(number, "")) is passes


# -- a daemon ----------------------------------------------------------------------------------------------------


def in_place_of(name: str, make: Callable[[Path], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).rename(folder / f"{name}.away")
        make(folder / name)

    return damage


DAMAGES = {
    "hooks.d is a file": in_place_of("hooks.d", plain),
    "hooks.d leads nowhere": in_place_of("hooks.d", dangling),
    "hooks.d leads in a circle": in_place_of("hooks.d", loop),
    "an entry leads nowhere": in_place_of("hooks.d/guards.py", dangling),
    "an entry leads in a circle": in_place_of("hooks.d/guards.py", loop),
    "hooks.toml leads nowhere": in_place_of("hooks.toml", dangling),
    "hooks.toml is a folder": in_place_of("hooks.toml", Path.mkdir),
}
MAIN = {"hooks.toml": CONFIG, "guards.py": GUARDS}


def files_for(name: str) -> dict[str, str]:
    return MAIN if name.startswith("hooks.toml") else FILES


def mend(folder: Path) -> None:
    for path in [*folder.rglob("*.away")]:
        damaged = path.with_suffix("")
        shutil.rmtree(damaged) if damaged.is_dir() and not damaged.is_symlink() else damaged.unlink()
        path.rename(damaged)


async def said(daemon: Daemon, client: Client) -> tuple[str, str | None, bool]:
    async with daemon.administrator() as admin:
        return (*(await bash(client))[:2], is_red(await admin.call("status")))


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
async def test_a_first_start_denies_until_it_is_mended_and_no_reload_accepts_it(tmp_path: Path, name: str) -> None:
    for file, text in files_for(name).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    DAMAGES[name](tmp_path)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        first = await said(daemon, client)
        await daemon.parts.administration.reload_all()
        reloaded = await said(daemon, client)
        mend(tmp_path)
        await daemon.parts.administration.reload_all()
        mended = await said(daemon, client)

    assert first == reloaded == ("deny", "load", True)
    assert mended == ("deny", "policy", False)


@pytest.mark.slow
@pytest.mark.parametrize("files", [FILES, MAIN], ids=["hooks.d", "hooks.toml"])
async def test_a_running_daemon_keeps_what_was_in_force_and_a_restart_denies(
    tmp_path: Path, files: dict[str, str]
) -> None:
    running: dict[str, tuple[object, ...]] = {}
    names = [name for name in DAMAGES if files_for(name) is files]
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        for name in names:
            DAMAGES[name](tmp_path)
            await daemon.parts.administration.reload_all()
            running[name] = await said(daemon, client)
            mend(tmp_path)
            await daemon.parts.administration.reload_all()
            assert await said(daemon, client) == ("deny", "policy", False), name

    assert running == dict.fromkeys(names, ("deny", "policy", True))
    DAMAGES[names[1 if files is FILES else 0]](tmp_path)
    for _ in range(2):
        async with running_daemon(tmp_path) as daemon, daemon.session() as client:
            first = await said(daemon, client)
            await daemon.parts.administration.reload_all()

            assert first == await said(daemon, client) == ("deny", "load", True)


@pytest.mark.slow
async def test_the_watch_sees_a_folder_break_and_come_back(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.session() as client, daemon.administrator() as admin:
        in_place_of("hooks.d", dangling)(tmp_path)
        status = await admin.until_status(is_red)
        kept = await bash(client)
        mend(tmp_path)
        await admin.until_status(is_green)

    assert "hooks.d is a link that leads nowhere" in str(status["problems"])
    assert kept == ("deny", "policy", "one")


def is_on_disk(status: dict[str, Any]) -> bool:
    record = status["record"]
    return bool(record["synced_seq"] == record["head"]["seq"])


@contextmanager
def no_descriptor_left() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
async def test_without_a_descriptor_for_the_listing_all_stays_and_is_looked_at_again(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, FILES) as daemon, daemon.session() as client, daemon.administrator() as admin:
        await admin.until_status(is_on_disk)  # else its thread would need a descriptor
        with no_descriptor_left():
            await daemon.parts.administration.reload_all()
        short = [str(one) for one in daemon.parts.reloader.active.diagnostics]
        kept = await bash(client)
        await admin.until_status(is_green)  # by itself: no file has changed

    assert any("hooks.d cannot be accessed: Too many open files" in one for one in short)
    assert kept == ("deny", "policy", "one")


# -- what was in force and is gone -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "gone"),
    [
        ({"config/hooks.toml": "", "config/hooks.d/guards.py": GUARDS}, "config/hooks.d"),
        ({"config/hooks.toml": "", "config/hooks.d/guards.py": GUARDS}, "config"),
        ({"config/hooks.toml": CONFIG, "config/guards.py": GUARDS}, "config/hooks.toml"),
    ],
)
async def test_what_vanished_denies_over_restarts_until_somebody_accepts_that(
    tmp_path: Path, files: dict[str, str], gone: str
) -> None:
    config = "config/hooks.toml"
    async with running_daemon(tmp_path, files, config=config):
        pass
    (tmp_path / gone).rename(tmp_path / "away")

    async with running_daemon(tmp_path, config=config):
        pass
    async with running_daemon(tmp_path, config=config) as daemon, daemon.session() as client:
        assert await said(daemon, client) == ("deny", "load", True)
        await daemon.parts.administration.reload_all(EVERYTHING)
        assert await said(daemon, client) == ("pass", None, False)


@pytest.mark.slow
async def test_who_never_configured_anything_starts_green_and_an_empty_folder_that_goes_is_said(
    tmp_path: Path,
) -> None:
    async with running_daemon(tmp_path, config="config/hooks.toml") as daemon, daemon.session() as client:
        new = await said(daemon, client)
        (tmp_path / "config/hooks.d").mkdir(parents=True)
        await daemon.parts.reloader.reload()
        empty = await said(daemon, client)
        (tmp_path / "config/hooks.d").rmdir()
        await daemon.parts.reloader.reload()
        gone = await said(daemon, client)
        await daemon.parts.administration.reload_all(EVERYTHING)
        accepted = await said(daemon, client)

    assert new == empty == accepted == ("pass", None, False)
    assert gone == ("pass", None, True)


@pytest.mark.slow
async def test_what_the_main_file_switched_on_stays_on_when_it_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    install(packages, "acme", "acme_off", SWITCHED_OFF)
    async with running_daemon(tmp_path, {"hooks.toml": '[[override]]\nid = "acme.no"\nenabled = true\n'}):
        pass

    async with running_daemon(tmp_path, {"hooks.toml": "[[\n"}) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Read")
        states = {hook["id"]: hook["state"] for hook in (await client.call("hooks"))["hooks"]}

    assert decision["verdict"] == "deny"
    assert states["acme.no"] == "active"


# -- other places that guards come from --------------------------------------------------------------------------


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    install(folder, "acme", "acme_unread")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        in_place_of("acme_unread-1.0.dist-info/entry_points.txt", dangling),
        in_place_of("acme_unread-1.0.dist-info/entry_points.txt", loop),
        in_place_of("acme_unread-1.0.dist-info", loop),
        lambda folder: (folder / "acme_unread-1.0.dist-info/entry_points.txt").write_bytes(b"[\xff"),
    ],
)
async def test_metadata_that_cannot_be_read_is_no_package_without_plugins(
    tmp_path: Path, packages: Path, damage: Callable[[Path], None]
) -> None:
    damage(packages)
    async with running_daemon(tmp_path) as daemon, daemon.session(plugins=[]) as client:
        assert await said(daemon, client) == ("deny", "load", True)
        assert "acme_unread-1.0.dist-info" in (await client.fire_tool("Bash"))["reason"]


@pytest.mark.slow
async def test_a_plugin_whose_metadata_cannot_be_read_any_more_stays_as_it_was(tmp_path: Path, packages: Path) -> None:
    metadata = packages / "acme_unread-1.0.dist-info/entry_points.txt"
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        in_place_of(metadata.name, dangling)(metadata.parent)
        await daemon.parts.administration.reload_all()
        kept = await said(daemon, client)
        mend(packages)
        await daemon.parts.administration.reload_all()
        mended = await said(daemon, client)

    assert (kept, mended) == (("deny", "policy", True), ("deny", "policy", False))


@pytest.mark.slow
async def test_a_state_that_leads_nowhere_is_no_empty_one(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    dangling(tmp_path / "state/state.json")

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        assert await said(daemon, client) == ("deny", "load", True)


@pytest.mark.slow
async def test_a_marker_that_makes_no_hook_denies_where_it_stands(tmp_path: Path) -> None:
    files = {"hooks.d/odd.py": GUARDS.replace('"pre_tool_use", match="Bash"', '"pre_tool_use", id="global/no"')}

    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

        assert await said(daemon, client) == ("deny", "load", True)
    assert "looks like a hook's full name" in decision["reason"]


@as_root
@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), [("hooks.d", 0), ("hooks.d", 0o300), ("hooks.d", 0o600), ("hooks.toml", 0)])
async def test_permissions_that_are_lost_take_no_guard_away(tmp_path: Path, name: str, mode: int) -> None:
    for file, text in files_for(name).items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    sound = (tmp_path / name).stat().st_mode
    (tmp_path / name).chmod(mode)

    with bound_by_permissions():
        async with running_daemon(tmp_path) as daemon, daemon.session() as client:
            first = await said(daemon, client)
            await daemon.parts.administration.reload_all()
            reloaded = await said(daemon, client)
            (tmp_path / name).chmod(sound)
            await daemon.parts.administration.reload_all()
            mended = await said(daemon, client)
            (tmp_path / name).chmod(mode)
            await daemon.parts.administration.reload_all()
            kept = await said(daemon, client)

    assert first == reloaded == ("deny", "load", True)
    assert (mended, kept) == (("deny", "policy", False), ("deny", "policy", True))

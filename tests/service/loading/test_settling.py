"""What may be half of a change is not taken at once, whatever it parses as; what is whole is."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hooklatch.path_lookup import Stamp
from hooklatch.service.config.configuration import ConfigError, FileConfig, read_config
from hooklatch.service.loading.reloader import UnsettledError
from hooklatch.service.loading.settling import has_lost, is_written, measure_quiet
from support.daemons import Client, Daemon, running_daemon
from support.edited import CONFIG, GUARDS, HOOK, bash, is_green, reloaded, watching
from support.pools import until

TWO = (
    HOOK.format(id="one") + "config = { strict = true }\n" + HOOK.format(id="two") + 'observe = true\nmatch = "Bash"\n'
)


@pytest.fixture
async def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Daemon]:
    """A daemon whose watch takes nothing by itself."""
    monkeypatch.setattr("hooklatch.service.loading.watch.SETTLE", 3600.0)
    files = {"hooks.toml": CONFIG + TWO, "guards.py": GUARDS}
    async with running_daemon(tmp_path, files) as daemon:
        yield daemon


# -- a file by itself --------------------------------------------------------------------------------------------


def test_a_file_is_written_until_its_last_writer_has_closed_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with path.open("w"), path.open("a"):
        while_open = is_written(str(path))
    with path.open():
        while_read = is_written(str(path))

    assert (while_open, while_read) == (True, False)


def test_what_cannot_be_opened_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")

    assert [is_written(str(tmp_path / name)) for name in ("missing", "link", "a\0b", ".")] == [None, None, None, False]


def test_who_opens_a_file_while_we_look_at_it_is_not_refused_and_kills_nobody(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    def write() -> None:
        for _ in range(2000):
            path.write_text("x")

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        is_written(str(path))
    thread.join()

    assert path.read_text() == "x"


def test_a_file_from_the_future_and_a_missing_one_have_just_changed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.utime(path, (0, 0))  # says nothing of when it was written: that is its change time

    assert 0.0 <= measure_quiet([str(path)]) < 60.0
    assert measure_quiet([str(path), str(tmp_path / "missing")]) == 0.0


def test_a_file_that_ends_after_any_of_its_lines_has_lost_something_or_cannot_be_read() -> None:
    before, lines = read_config("/hooks.toml", TWO.encode()), TWO.splitlines(keepends=True)
    read: list[FileConfig] = []
    for end in range(len(lines)):
        with suppress(ConfigError):
            read.append(read_config("/hooks.toml", "".join(lines[:end]).encode()))

    assert len(read) == 5
    assert all(has_lost(before, half) for half in read)


def test_a_file_with_other_values_and_more_hooks_has_lost_nothing() -> None:
    before = read_config("/hooks.toml", TWO.encode())
    after = read_config("/hooks.toml", (HOOK.format(id="new") + TWO.replace("true", "false")).encode())

    assert not has_lost(before, after)
    assert has_lost(before, None)


async def registered(client: Client) -> dict[str, Any]:
    """Return what is registered, without what its workers do at the moment."""
    report = await client.call("hooks")
    return report | {"hooks": [{key: hook[key] for key in hook if key != "load"} for hook in report["hooks"]]}


# -- a reload that takes only what is whole ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hooks.toml", CONFIG + HOOK.format(id="one") + "config = { strict = true }\n"),  # without the second hook
        ("hooks.toml", (CONFIG + TWO).replace("config = { strict = true }\n", "")),
        ("hooks.toml", (CONFIG + TWO).replace('"one"', '"other"')),  # it may come back in another file
        ("hooks.toml", CONFIG + TWO + "[[hook]]\n"),
        ("hooks.toml", ""),
        ("guards.py", GUARDS.partition('@hook("notification")')[0]),
        ("guards.py", GUARDS + "x = (\n"),
        ("guards.py", GUARDS + "import not_yet_written\n"),
    ],
)
async def test_what_may_be_half_of_a_change_changes_nothing(daemon: Daemon, name: str, text: str) -> None:
    reloader, pools = daemon.parts.reloader, daemon.parts.sources.pools
    async with daemon.session() as client, daemon.administrator() as admin:
        before, built = await registered(client), set(pools)
        daemon.write(name, text)

        with pytest.raises(UnsettledError):
            await reloader.reload(known=await reloader.stamps())

        assert await registered(client) == before
        assert await bash(client) == ("deny", "policy", "one")
        assert is_green(await admin.call("status"))
        assert set(pools) == built


async def test_what_has_changed_since_it_was_looked_at_is_not_taken(daemon: Daemon) -> None:
    reloader, view = daemon.parts.reloader, daemon.parts.registries.view
    known = await reloader.stamps()
    daemon.write("hooks.toml", CONFIG + TWO + HOOK.format(id="three"))

    with pytest.raises(UnsettledError):
        await reloader.reload(known=known)

    assert daemon.parts.registries.view is view


@pytest.mark.parametrize(
    ("name", "text", "added", "changed"),
    [
        ("hooks.toml", CONFIG + TWO + HOOK.format(id="three"), ["three"], []),
        ("hooks.toml", (CONFIG + TWO).replace("strict = true", "strict = false"), [], ["one"]),
        ("guards.py", GUARDS.replace('"one"', '"two"'), [], ["guards:no", "guards:noted", "one", "two"]),
    ],
)
async def test_what_is_whole_is_taken_at_once(
    daemon: Daemon, name: str, text: str, added: list[str], changed: list[str]
) -> None:
    reloader = daemon.parts.reloader
    daemon.write(name, text)

    taken = await reloader.reload(known=await reloader.stamps())

    assert (taken["added"], sorted(taken["changed"]), taken["diagnostics"]) == (added, changed, [])


async def test_what_lost_something_is_taken_when_it_stays_so(daemon: Daemon) -> None:
    reloader = daemon.parts.reloader
    daemon.write("hooks.toml", CONFIG + HOOK.format(id="one"))
    with pytest.raises(UnsettledError):
        await reloader.reload(known=await reloader.stamps())

    taken = await reloader.reload()

    assert (taken["removed"], taken["changed"]) == (["two"], ["one"])


async def test_the_watch_takes_what_is_whole_without_waiting_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        running_daemon(tmp_path, {"hooks.toml": CONFIG, "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
    ):
        await watching(client)
        await until(lambda: daemon.parts.reloader.reloads["good"] == 2)  # that of the start, and the watch's first look
        monkeypatch.setattr("hooklatch.service.loading.watch.PATIENCE", 3600.0)

        daemon.write("guards.py", GUARDS.replace("one", "two"))
        await reloaded(client)
        daemon.write("hooks.toml", CONFIG + TWO)
        heard = await reloaded(client)

        assert heard["added"] == ["one", "two"]
        assert await bash(client) == ("deny", "policy", "two")


async def test_a_file_that_somebody_has_open_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooklatch.service.loading.watch.WRITING", 3600.0)
    async with (
        running_daemon(tmp_path, {"hooks.toml": CONFIG + TWO, "guards.py": GUARDS}) as daemon,
        daemon.session() as client,
    ):
        await watching(client)
        with (daemon.folder / "hooks.toml").open("w") as file:
            file.write(CONFIG)
            file.flush()
            looks = count_of_looks(daemon, monkeypatch)
            await until(lambda: looks() > 5)  # it has been quiet for long enough by then
            file.write(TWO + HOOK.format(id="three"))
        heard = await reloaded(client)

    assert (heard["added"], heard["removed"]) == (["three"], [])


def count_of_looks(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how often the watch has looked at the files since."""
    looks, reloader = count(), daemon.parts.reloader
    last = [0]

    async def look() -> dict[str, Stamp]:
        last[0] = next(looks)
        return await stamps()

    stamps = reloader.stamps
    monkeypatch.setattr(reloader, "stamps", look)
    return lambda: last[0]

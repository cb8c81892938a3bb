"""A file that somebody else could have written is not run."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from hooklatch.file_safety import MAX_FILE, UnsafeFileError, make_private, read_safely
from hooklatch.service.folders import StartError, make_runtime_dir
from support.daemons import Daemon, running_daemon
from support.strangers import NOBODY, as_nobody, as_root, folder_for_all

GUARD = "from hooklatch_worker import hook\n@hook('stop')\ndef f(event): pass\n"

# Elsewhere a file cannot be opened without its path (O_PATH), so the link itself is refused.
SHARED = pytest.mark.linux_only("a link in a folder that others can write to")


@pytest.fixture
def guards(tmp_path: Path) -> Path:
    """A file two folders down, all of them ours."""
    path = tmp_path / "outer" / "inner" / "guards.py"
    path.parent.mkdir(parents=True, mode=0o755)
    path.write_text("x = 1\n")
    return path


def refused(path: Path) -> str:
    with pytest.raises(UnsafeFileError) as caught:
        read_safely(str(path))
    return str(caught.value)


def test_a_file_of_ours_is_read(guards: Path) -> None:
    assert read_safely(str(guards)) == b"x = 1\n"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
@pytest.mark.parametrize("pick", [lambda p: p, lambda p: p.parent, lambda p: p.parent.parent])
def test_what_others_may_write_is_refused_with_what_mends_it(
    guards: Path, mode: int, pick: Callable[[Path], Path]
) -> None:
    open_to_others = pick(guards)
    open_to_others.chmod(mode | (0o111 if open_to_others.is_dir() else 0))

    assert refused(guards) == f"{open_to_others} is writable by others; fix it with: chmod go-w {open_to_others}"

    open_to_others.chmod(open_to_others.stat().st_mode & ~0o022)
    assert read_safely(str(guards))


def test_a_sticky_folder_is_accepted_above_and_not_as_the_files_own(guards: Path) -> None:
    guards.parent.parent.chmod(0o1777)
    assert read_safely(str(guards))

    guards.parent.chmod(0o1777)
    assert "chmod go-w" in refused(guards)


@as_root
@pytest.mark.parametrize("pick", [lambda p: p, lambda p: p.parent, lambda p: p.parent.parent])
def test_what_belongs_to_somebody_else_is_refused(guards: Path, pick: Callable[[Path], Path]) -> None:
    os.chown(pick(guards), NOBODY, NOBODY)

    assert refused(guards) == (
        f"{pick(guards)} belongs to user {NOBODY}; fix it with: chown {os.geteuid()} {pick(guards)}"
    )


@as_root
def test_a_sticky_folder_of_somebody_else_is_refused(guards: Path) -> None:
    guards.parent.parent.chmod(0o1777)
    os.chown(guards.parent.parent, NOBODY, NOBODY)

    assert "belongs to user" in refused(guards)


def test_a_link_is_held_to_the_rule_at_both_ends(guards: Path, tmp_path: Path) -> None:
    link = tmp_path / "links" / "guards.py"
    link.parent.mkdir()
    link.symlink_to(guards)
    assert read_safely(str(link))

    link.parent.chmod(0o777)
    assert f"chmod go-w {link.parent}" in refused(link)

    link.parent.chmod(0o755)
    guards.parent.chmod(0o777)
    assert f"chmod go-w {guards.parent}" in refused(link)


@as_root
@pytest.mark.parametrize("is_sticky", [pytest.param(True, marks=SHARED), False])
def test_a_link_of_somebody_else_is_not_followed(guards: Path, tmp_path: Path, is_sticky: bool) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    link = shared / "folder"
    link.symlink_to(guards.parent)
    assert read_safely(str(link / "guards.py"))

    shared.chmod(0o1777 if is_sticky else 0o755)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)

    assert refused(link / "guards.py") == f"{link} belongs to user {NOBODY}; fix it with: chown {os.geteuid()} {link}"


@as_root
def test_a_link_into_a_folder_of_somebody_else_is_refused(guards: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "guards.py").write_text("evil")
    os.chown(theirs, NOBODY, NOBODY)
    link = tmp_path / "ours.py"
    link.symlink_to("outer/../theirs/guards.py")

    assert f"{theirs} belongs to user {NOBODY}" in refused(link)


def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to("b.py")
    (tmp_path / "b.py").symlink_to("a.py")

    assert "leads through more than 40 links" in refused(tmp_path / "a.py")


@as_root
def test_a_folder_that_is_swapped_while_it_is_walked_never_gives_what_is_not_ours(guards: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "guards.py").write_text("evil")
    os.chown(theirs, NOBODY, NOBODY)
    os.chown(theirs / "guards.py", NOBODY, NOBODY)
    inner, aside = guards.parent, tmp_path / "aside"
    is_done = threading.Event()

    def swap() -> None:
        while not is_done.is_set():
            inner.rename(aside)
            inner.symlink_to(theirs)
            inner.unlink()
            aside.rename(inner)

    found: Counter[str] = Counter()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        swapping = pool.submit(swap)
        try:
            while found["x = 1\n"] < 100 or found["UnsafeFileError"] < 100:
                try:
                    found[read_safely(str(guards)).decode()] += 1
                except (UnsafeFileError, OSError) as error:
                    found[type(error).__name__] += 1
        finally:
            is_done.set()
        swapping.result()

    assert set(found) <= {"x = 1\n", "UnsafeFileError", "FileNotFoundError", "NotADirectoryError"}


def test_what_is_no_file_is_refused(guards: Path) -> None:
    os.mkfifo(guards.parent / "pipe.py")

    assert "is not a regular file" in refused(guards.parent)
    assert "is not a regular file" in refused(guards.parent / "pipe.py")
    assert "is not a path" in refused(guards.parent / "nul\0l.py")


def test_a_file_may_be_so_large_and_no_larger(guards: Path) -> None:
    guards.write_bytes(b"#" * MAX_FILE)
    assert len(read_safely(str(guards))) == MAX_FILE

    guards.write_bytes(b"#" * (MAX_FILE + 1))
    assert "is over 4 MiB" in refused(guards)


@pytest.mark.parametrize("name", ["inner/guards.py", "hooks.toml", "inner"])
async def test_gates_deny_for_an_unsafe_file_and_name_the_chmod(tmp_path: Path, name: str) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "hooks.toml").write_text('[[source]]\npath = "inner/guards.py"\n')
    (tmp_path / "inner" / "guards.py").write_text(GUARD)
    (tmp_path / name).chmod(0o777)
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert f"chmod go-w {(tmp_path / name)}" in decision["reason"]


async def test_a_client_cannot_register_an_unsafe_file(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"guards.py": "def f(event): pass\n"}) as daemon:
        (tmp_path / "guards.py").chmod(0o666)
        async with daemon.session(cwd=str(tmp_path)) as client:
            with pytest.raises(Exception, match=r"load_failed.*chmod go-w"):
                await client.call("register", hooks=[{"event": "stop", "run": "guards.py:f"}])


HELPER = "ran = open(__file__ + '.ran', 'w')\n"
USER_OF_IT = "import helper\nfrom hooklatch_worker import hook\n@hook('pre_tool_use')\ndef f(event): pass\n"


@pytest.mark.parametrize("name", ["helper.py", "package/__init__.py", "package/helper.py", "package"])
async def test_an_unsafe_module_beside_a_source_is_refused_before_it_runs(tmp_path: Path, name: str) -> None:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": USER_OF_IT}
    if "package" in name:
        files["guards.py"] = USER_OF_IT.replace("import helper", "import package.helper")
        files["package/__init__.py"] = ""
    module = name if name.endswith("helper.py") else "package/helper.py"
    files[module] = HELPER
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / name).chmod(0o777)
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert f"{tmp_path / name} is writable by others" in decision["reason"]
    assert not (tmp_path / f"{module}.ran").exists()


# -- what is in force --------------------------------------------------------------------------------------------


async def health(daemon: Daemon) -> tuple[str, str]:
    async with daemon.administrator() as client:
        status = await client.call("status")
    return status["health"], str(status["problems"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hooks.toml", "guards.py", "helper.py", "inner", "inner/other.py"])
async def test_a_change_of_mode_alone_is_noticed_and_the_last_good_version_stays(tmp_path: Path, name: str) -> None:
    files = {
        "hooks.toml": '[[source]]\npath = "guards.py"\n\n[[source]]\npath = "inner/other.py"\n',
        "guards.py": USER_OF_IT, "helper.py": "", "inner/other.py": GUARD,
    }  # fmt: skip
    async with running_daemon(tmp_path, files) as daemon, daemon.session() as client:
        before = (tmp_path / name).stat().st_mode
        (tmp_path / name).chmod(0o777)
        daemon.parts.file_watch.hint.set()
        with trio.fail_after(10):
            while (await health(daemon))[0] == "green":
                await trio.lowlevel.checkpoint()
        problems = (await health(daemon))[1]
        decision = await client.fire_tool("Bash")
        (tmp_path / name).chmod(before)
        daemon.parts.file_watch.hint.set()
        with trio.fail_after(10):
            while (await health(daemon))[0] == "red":
                await trio.lowlevel.checkpoint()

    assert f"chmod go-w {tmp_path / name}" in problems
    assert decision["verdict"] == "pass"


@as_root
async def test_a_change_of_owner_alone_is_noticed(tmp_path: Path) -> None:
    files = {"hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": GUARD}
    async with running_daemon(tmp_path, files) as daemon:
        os.chown(tmp_path / "guards.py", NOBODY, NOBODY)
        daemon.parts.file_watch.hint.set()
        with trio.fail_after(10):
            while (await health(daemon))[0] == "green":
                await trio.lowlevel.checkpoint()

        assert f"guards.py belongs to user {NOBODY}" in (await health(daemon))[1]


async def test_a_project_whose_folder_was_opened_to_others_denies(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".hooklatch").mkdir(parents=True)
    (project / ".hooklatch" / "hooks.toml").write_text(
        '[[hook]]\nid = "it"\nevent = "pre_tool_use"\ncommand = "exit 0"\n'
    )
    async with running_daemon(tmp_path) as daemon:
        async with daemon.administrator() as admin:
            await admin.call("trust", folder=str(project))
        async with daemon.session(cwd=str(project)) as client:
            before = await client.fire_tool("Bash", command="ls")
            (project / ".hooklatch").chmod(0o777)
            opened = await client.fire_tool("Bash", command="ls")
            (project / ".hooklatch").chmod(0o755)
            after = await client.fire_tool("Bash", command="ls")

    assert [one["verdict"] for one in (before, opened, after)] == ["pass", "deny", "pass"]
    assert f"chmod go-w {project / '.hooklatch'}" in opened["reason"]


async def test_the_digest_of_each_file_in_force_is_told(tmp_path: Path) -> None:
    files = {
        "hooks.toml": '[[source]]\npath = "guards.py"\n', "guards.py": USER_OF_IT, "helper.py": "",
        "hooks.d/more.toml": '[[hook]]\nid = "more"\nevent = "stop"\ncommand = "exit 0"\n',
    }  # fmt: skip
    async with running_daemon(tmp_path, files) as daemon, daemon.administrator() as client:
        hooks = {hook["id"]: hook["digests"] for hook in (await client.call("hooks"))["hooks"]}
        status = await client.call("status")

    expected = {str(tmp_path / name): hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    assert expected.items() <= status["files"].items()
    assert set(hooks["guards:f"]) == {str(tmp_path / "guards.py"), str(tmp_path / "helper.py")}
    assert expected.items() >= hooks["guards:f"].items()
    assert hooks["more"][str(tmp_path / "hooks.d/more.toml")] == expected[str(tmp_path / "hooks.d/more.toml")]
    assert expected[str(tmp_path / "guards.py")] in {source["digest"] for source in status["sources"]}


# -- the daemon's own folders ------------------------------------------------------------------------------------


@as_root
async def test_a_state_that_somebody_else_has_written_denies_at_every_gate(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.json").write_text("{}")
    os.chown(tmp_path / "state" / "state.json", NOBODY, NOBODY)
    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        decision = await client.fire_tool("Bash")

    assert (decision["verdict"], decision["cause"]) == ("deny", "load")
    assert f"belongs to user {NOBODY}" in decision["reason"]


async def test_a_folder_of_the_state_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o755)
    async with running_daemon(tmp_path):
        assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def start_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, StartError)
    return str(error)


@pytest.mark.parametrize("name", ["state", "above"])
async def test_no_daemon_starts_where_others_could_have_written(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "above" / "below"
    (folder / "state").mkdir(parents=True)
    opened = folder / "state" if name == "state" else folder.parent
    opened.chmod(0o777)

    with pytest.raises((StartError, BaseExceptionGroup)) as caught:
        async with running_daemon(folder):
            pass
    assert start_error(caught.value).startswith(f"{opened} is writable by others; fix it with: chmod go-w {opened}")


@as_root
async def test_no_daemon_starts_in_the_folder_of_another_users() -> None:
    with folder_for_all() as folder:
        async with running_daemon(folder) as daemon:
            os.chmod(folder / "run", 0o777)
            said = await trio.to_thread.run_sync(as_nobody, lambda: make_runtime_dir(str(folder / "run")))

            assert "is not a directory of this user" in said
            async with daemon.session() as client:
                assert (await client.call("ping")) == {}


def test_the_entries_of_directories_that_are_made_are_brought_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr("hooklatch.file_safety.sync_folder", synced.append)

    make_private(str(tmp_path / "home" / "state"))
    make_private(str(tmp_path / "home" / "state"))

    assert synced == [str(tmp_path / "home"), str(tmp_path)]
    with monkeypatch.context() as patched:
        patched.chdir(tmp_path)
        make_private("relative")
    assert synced[2:] == [str(tmp_path)]

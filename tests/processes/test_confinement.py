"""What a worker starts with: its environment, descriptors, limits and session; and how clean the zygote is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hooklatch_worker.systems import linux, system
from support.daemons import callbacks
from support.pools import running_pool

WORKADAY = callbacks("workaday.py")

pytestmark = pytest.mark.slow  # each test starts a zygote: 0.15 s and more


async def test_workers_see_the_allowed_environment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "hunter2")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("LC_TIME", "C")
    async with running_pool(tmp_path, WORKADAY) as workers:
        seen = await workers.said("environment")

    assert "SECRET_API_KEY" not in seen["now"]
    assert "hunter2" not in seen["first"]
    assert "PYTHONPATH" not in seen["now"]
    assert seen["now"]["LC_TIME"] == "C"
    assert os.environ["SECRET_API_KEY"] == "hunter2"


async def test_workers_are_confined(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY) as workers:
        seen = await workers.said("surroundings")
        zygote = workers.zygote.pid

    assert seen["fds"] == [0, 1, 2, 3]
    assert seen["core"] == [0, 0]
    assert seen["files"] == [256, 256]
    assert seen["size"] == [64 * 2**20, 64 * 2**20]
    assert (seen["no_new_privs"], seen["threads"]) == (("1", "1") if system is linux else (None, None))
    assert seen["pid"] == seen["session"] == seen["group"]
    assert seen["parent"] == zygote
    assert seen["umask"] == 0o077
    assert seen["stdin"] == ""
    assert seen["modules"] == []


async def test_a_file_that_grows_too_big_is_an_error_of_the_call(tmp_path: Path) -> None:
    async with running_pool(tmp_path, WORKADAY) as workers:
        reply = await workers.call("write_much", path=str(tmp_path / "big"))

    assert (reply.cause, reply.is_lost) == ("crash", False)
    assert "File too large" in reply.message


async def test_few_descriptors_are_enough_to_start(tmp_path: Path) -> None:
    from hooklatch_worker import wire

    async with running_pool(tmp_path, WORKADAY, worker=wire.WorkerLimits(open_files=16)) as workers:
        seen = await workers.said("surroundings")

    assert seen["files"] == [16, 16]


async def test_the_zygote_imports_nothing_of_the_users_and_has_one_thread(tmp_path: Path) -> None:
    text = (
        "import sys\nat_birth = sorted(set(sys.modules) - {__name__})\nimport colorsys\n" + WORKADAY + "\n"
        "def modules(event):\n    return tell(sorted(sys.modules))\n\n"
        "def modules_at_birth(event):\n    return tell(at_birth)\n"
    )
    async with running_pool(tmp_path, text) as workers:
        first = await workers.said("modules")
        zygote = workers.zygote.pid
        threads = os.listdir(f"/proc/{zygote}/task")
        other = await workers.said("modules_at_birth")

    assert {"colorsys", "source"} <= set(first)
    assert not {"colorsys", "source"} & set(other)
    assert not {"trio", "psutil", "hooklatch"} & set(other)
    assert len(threads) == 1


async def test_nothing_that_one_worker_imported_is_known_to_the_next(tmp_path: Path) -> None:
    text = WORKADAY + (
        "\nearlier = 'colorsys' in sys.modules or 'source' in set(sys.modules) - {__name__}\nimport colorsys\n"
        "\ndef was_there(event):\n    return tell(earlier)\n"
    )
    async with running_pool(tmp_path, text) as workers:
        found = []
        for _ in range(3):
            found.append(await workers.said("was_there"))
            await workers.call("die")

    assert found == [False, False, False]

"""The link's connection to a real daemon, in its role.

Slow: each test has a daemon of its own.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from hooklatch.fleet.link.daemon import DaemonAbsentError, DaemonRefusedError, DaemonSocket, FollowAnswer
from hooklatch.fleet.manifests import read_envelope
from support.daemons import nothing_left, running_daemon
from support.fleets import fleet_table
from support.link_parts import Publisher
from support.strangers import as_root, folder_for_all, listener_of_another

pytestmark = pytest.mark.slow
GUARD = """
from hooklatch import deny, hook

@hook("pre_tool_use", match="Bash")
def no(event):
    return deny("the fleet says no")
"""


@asynccontextmanager
async def connected(folder: Path, patience: float = 10.0) -> AsyncGenerator[DaemonSocket]:
    link = DaemonSocket(lambda: [str(folder / "absent"), str(folder / "run")], timeout=patience)
    try:
        yield link
    finally:
        link.close()


async def test_a_version_is_followed_and_applied(tmp_path: Path) -> None:
    publisher = Publisher()
    envelope, bundle = publisher.make(GUARD)
    config = fleet_table(publisher.key.public.text)
    async with running_daemon(tmp_path, {"hooks.toml": config}) as daemon, connected(tmp_path) as link:
        before = await link.follow(None)
        followed = await link.follow([envelope.decode()])
        await link.apply(1, bundle)
        answer = await link.follow([], publisher.timestamp(followed.head).decode())
        await link.report_shipped(1)
        async with daemon.session() as client:
            decision = await client.fire_tool("Bash")

    assert (before.head.version, before.applied, before.stale_s) == (0, None, None)
    assert followed.head.digest == read_envelope(envelope).digest
    assert followed.wanted is not None
    assert answer.applied == followed.wanted
    assert answer.stale_s is not None
    assert (decision["verdict"], decision["reason"]) == ("deny", "the fleet says no")


async def test_what_the_daemon_refuses_leaves_the_connection_as_it_is(tmp_path: Path) -> None:
    publisher, stranger = Publisher(), Publisher()
    config = fleet_table(publisher.key.public.text)
    async with running_daemon(tmp_path, {"hooks.toml": config}), connected(tmp_path) as link:
        with pytest.raises(DaemonRefusedError, match="does not list"):
            await link.follow([stranger.make(GUARD)[0].decode()])
        with pytest.raises(DaemonRefusedError):
            await link.apply(1, b"{}")
        with pytest.raises(DaemonRefusedError):
            await link.report_shipped(10**9)
        assert link.is_connected()
        assert (await link.follow(None)).head.version == 0


async def test_a_token_that_was_renewed_is_read_anew(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}) as daemon, connected(tmp_path) as link:
        assert (await link.follow(None)).labels == ()
        daemon.write("hooks.toml", fleet_table(more='labels = ["ci"]'))
        async with daemon.administrator() as admin:
            await admin.call("reload")
        with trio.fail_after(30):
            while link.is_connected():  # noqa: ASYNC110  (nobody tells)
                await trio.sleep(0.005)
        assert (await link.follow(None)).labels == ("ci",)


async def test_a_daemon_without_a_fleet_takes_no_link(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": ""}), connected(tmp_path) as link:
        with pytest.raises(DaemonAbsentError, match=r"fleet\.token"):
            await link.follow(None)


@as_root
async def test_where_the_pointer_alone_leads_another_user_is_told_nothing() -> None:
    with folder_for_all() as folder:
        folder.chmod(0o777)
        (folder / "fleet.token").write_text("a token")
        link = DaemonSocket(lambda: [str(folder)])
        no_other = pytest.raises(DaemonAbsentError, match="another user listens there")
        with listener_of_another(str(folder / "admin.sock")), no_other:
            await link.follow(None)
        link.close()


async def test_another_token_is_refused(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}), connected(tmp_path) as link:
        (tmp_path / "run" / "fleet.token").write_text("0" * 64)
        with pytest.raises(DaemonRefusedError, match="refuses this link"):
            await link.follow(None)
        assert not link.is_connected()


async def test_a_daemon_that_says_nothing_is_given_up_with_its_connection(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "fleet.token").write_text("0" * 64)
    with nothing_left(), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "run" / "admin.sock"))
        listener.listen()
        async with connected(tmp_path, patience=0.05) as link:
            with pytest.raises(DaemonAbsentError, match="did not answer hello"):
                await link.follow(None)
            assert not link.is_connected()


@pytest.mark.parametrize("said", [b"no json\n", b'{"jsonrpc":"2.0","id":1,"result":[]}\n' * 2, b"", b"x" * 2**20])
async def test_an_answer_that_makes_no_sense_is_no_answer(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "fleet.token").write_text("0" * 64)

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(said)
        await stream.aclose()

    with socket.socket(socket.AF_UNIX) as raw:
        raw.bind(str(tmp_path / "run" / "admin.sock"))
        listener = trio.socket.from_stdlib_socket(raw)
        listener.listen()
        async with trio.open_nursery() as nursery, connected(tmp_path, patience=1.0) as link:
            nursery.start_soon(trio.serve_listeners, answer, [trio.SocketListener(listener)])
            with pytest.raises(DaemonAbsentError):
                await link.follow(None)
            nursery.cancel_scope.cancel()


async def test_a_question_that_is_cancelled_does_not_leave_its_answer_to_the_next(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, {"hooks.toml": fleet_table()}), connected(tmp_path) as link:
        await link.follow(None)
        with trio.CancelScope() as scope:
            scope.cancel()
            await link.follow(None)
        assert (await link.follow(None)).host == "h1"
        await link.report_shipped(1)


def test_the_shapes_of_answers_take_what_a_newer_daemon_adds() -> None:
    answer = msgspec.json.decode(
        b'{"head":{"version":1,"digest":"d","new":1},"host":null,"newer":[]}', type=FollowAnswer
    )

    assert answer.head.version == 1

"""fleet enroll, join and fleet retire, on the engine of examples/fleet, with its rights.

Slow: the engine is a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from hooklatch.fleet.engine.engine import OF_USERS, Engine
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.enrolment import HostIdentity, read_host_key
from hooklatch.fleet.reports import HostReport
from hooklatch.fleet.signing import make_key
from support.commands import Place, new_place
from support.example_engine import EXAMPLE, FLEET, ExampleEngine, example_engine
from support.redis_server import needs_redis

pytestmark = [pytest.mark.slow, needs_redis]
KEY = make_key().public.text


@pytest.fixture(scope="module")
def example() -> Iterator[ExampleEngine]:
    with example_engine() as engine:
        yield engine


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place({}) as made:
        yield made


def run(example: ExampleEngine, place: Place, role: str, *words: str) -> Any:
    """Run a command about the fleet as a user of the engine; return its exit code and what it prints."""
    file = str(example.folder / f"{role}.password")
    where = ["--to", example.url(role), "--fleet", FLEET, "--password-file", file, "--ca", example.ca, "--json"]
    done = place.run("fleet", *words, *where)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def ask(example: ExampleEngine, place: Place, host: str, work: Callable[[Engine], Awaitable[object]]) -> None:
    """Do something with the engine as a host that has joined."""
    password = (place.config.parent / "fleet.password").read_text().strip()

    async def asked() -> None:
        async with open_engine(example.url(f"host-{host}"), FLEET, password=password, ca=example.ca) as engine:
            await work(engine)

    trio.run(asked)


def test_a_token_makes_a_host_once(example: ExampleEngine, place: Place) -> None:
    code, made = run(example, place, "enroller", "enroll", "new-1", "--label", "ci", "--publisher", KEY)
    assert code == 0
    place.write({"hooks.toml": "# mine\n"})

    joined = place.run("join", "-", "--json", stdin=made["token"])

    assert joined.returncode == 0, joined.stderr
    text = place.config.read_text()
    assert text.startswith("# mine\n\n[fleet]\n")
    assert f'labels = ["ci"]\nkeys = ["{KEY}"]' in text
    assert (place.config.parent / "fleet.password").stat().st_mode & 0o77 == 0
    assert place.run("check").returncode == 0
    key = read_host_key(str(place.folder / ".local/state/hooklatch"))
    assert key is not None
    assert json.loads(joined.stdout)["key"] == key.public.text
    report = HostIdentity(key, FLEET, "new-1").sign_report(HostReport(host="new-1", health="ready"))
    ask(example, place, "new-1", lambda engine: engine.report("new-1", report))
    assert run(example, place, "auditor", "status", "--host", "new-1")[1]["hosts"][0]["proven"]
    assert "has a [fleet] table" in place.run("join", made["token"]).stderr
    with new_place({}) as other:
        again = other.run("join", made["token"])
    assert again.returncode == 65
    assert "the token was used already, or is older than an hour" in again.stderr


def test_who_is_retired_comes_in_no_more(example: ExampleEngine, place: Place) -> None:
    token = run(example, place, "enroller", "enroll", "new-2", "--publisher", KEY)[1]["token"]
    assert place.run("join", token).returncode == 0

    assert run(example, place, "enroller", "retire", "new-2", "--reason", "sold")[0] == 0

    with pytest.raises(Exception, match="does not know the user 'host-new-2'"):
        ask(example, place, "new-2", lambda engine: engine.newest_version())


def test_an_operator_enrolls_by_key_and_leaves_users_alone(example: ExampleEngine, place: Place) -> None:
    assert run(example, place, "operator", "enroll", "new-3", "--host-key", KEY)[1]["key"] == KEY
    code, said = run(example, place, "operator", "enroll", "new-4", "--publisher", KEY)
    assert (code, "ACL SETUSER" in said) == (77, True)
    assert run(example, place, "operator", "retire", "new-3", "--reason", "x")[0] == 0
    assert run(example, place, "auditor", "retire", "new-3", "--reason", "x")[0] == 77
    assert example.command("host-laptop1", "GETDEL", f"hooklatch:{FLEET}:token:new-1").startswith(b"-NOPERM")


def test_a_host_that_has_not_joined_yet_does_not_report(example: ExampleEngine, place: Place) -> None:
    example.command("host-laptop1", "XADD", f"hooklatch:{FLEET}:host:laptop1", "*", "d", '{"host":"laptop1"}')
    run(example, place, "enroller", "enroll", "laptop1", "--publisher", KEY)

    wrong = run(example, place, "auditor", "status", "--host", "laptop1")[1]["hosts"][0]["wrong"]

    assert any("has not joined yet" in text for text in wrong)


@pytest.mark.parametrize("token", ["x", "hooklatch-join-", "hooklatch-join-e30=", "hooklatch-join-{"])
def test_what_is_no_token_is_one_clear_error(place: Place, token: str) -> None:
    done = place.run("join", token)

    assert (done.returncode, done.stdout) == (65, "")
    assert "this is not a token" in done.stderr
    assert not place.config.exists()


def test_the_rights_are_those_of_the_example() -> None:
    (line,) = [line for line in (EXAMPLE / "users.acl").read_text().splitlines() if line.startswith("user host-HOST ")]

    assert line == f"user host-HOST on #SHA256-OF-ITS-PASSWORD {OF_USERS['host']}"

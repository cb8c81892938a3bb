"""What a hook can do at each level, tried by a Python hook and a shell hook in real workers, one by one.

Slow: each level starts a daemon and its workers once, for all attempts.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import trio

from hooklatch_worker.sandbox.isolation import detect_kernel, find_effective_isolation
from hooklatch_worker.wire import Isolation
from workers.sandbox.ground import SHELL_ATTEMPTS, ground, printed, try_calls, try_python, try_shell, trying

KERNEL = detect_kernel()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(find_effective_isolation(KERNEL, Isolation("strict")).missing), reason=f"this kernel offers only {KERNEL}"
    ),
]

# What comes of an attempt under standard, restricted and strict; None where that depends on the machine or the user.
PYTHON: dict[str, tuple[str | None, str | None, str | None]] = {
    "write outside": ("ok", "EACCES", "EACCES"),
    "write over a file outside": ("ok", "EACCES", "EACCES"),
    "cut a file outside short": ("ok", "EACCES", "EACCES"),
    "remove a file outside": ("ok", "EACCES", "EACCES"),
    "make a folder outside": ("ok", "EACCES", "EACCES"),
    "move a file out": ("ok", "EACCES", "EACCES"),
    "write beside the source": ("ok", "EACCES", "EACCES"),
    "write into the shared memory": ("ok", "EACCES", "EACCES"),
    "write inside": ("ok", "ok", "ok"),
    "read inside": ("ok", "ok", "ok"),
    "use a database inside": ("ok", "ok", "ok"),
    "use temporary files": ("ok", "ok", "ok"),
    "use memory files": ("ok", "ok", "ok"),
    "write to the null device": ("ok", "ok", "ok"),
    "read the home": ("ok", "ok", "EACCES"),
    "list the home": ("ok", "ok", "EACCES"),
    "look at a file's size": ("ok", "ok", "ok"),
    "read hooks.toml": ("ok", "ok", "EACCES"),
    "read hooks.d": ("ok", "ok", "EACCES"),
    "read data beside the source": ("ok", "ok", "EACCES"),
    "read another hook's data": ("ok", "ok", "EACCES"),
    "read the daemon's state": ("ok", "ok", "EACCES"),
    "read where it is shown": ("ok", "ok", "ok"),
    "read its own code": ("ok", "ok", "ok"),
    "import late": ("ok", "ok", "ok"),
    "connect to the agent's socket": ("ok", "EPERM", "EPERM"),  # where it can, the daemon hangs up on it
    "connect to the admin socket": ("ok", "EPERM", "EPERM"),
    "connect by TCP": ("ok", "EPERM", "EPERM"),
    "send by UDP": ("ok", "EPERM", "EPERM"),
    "listen by TCP": ("ok", "EPERM", "EPERM"),
    "listen on a path": ("ok", "EPERM", "EPERM"),
    "connect to an abstract socket": ("ok", "EPERM", "EPERM"),
    "make a pair of datagram sockets": ("ok", "EPERM", "EPERM"),
    "make a pair of sockets": ("ok", "ok", "ok"),
    "make a ring of requests": (None, "EPERM", "EPERM"),
    "signal the daemon": ("ok", "EPERM", "EPERM"),
    "signal the zygote": ("ok", "EPERM", "EPERM"),
    "signal another worker": ("ok", "EPERM", "EPERM"),
    "kill its own child": ("ok", "ok", "ok"),
    "trace another worker": (None, "EPERM", "EPERM"),
    "open the daemon's memory": (None, "EACCES", "EACCES"),
    "read the daemon's environment": (None, "EACCES", "EACCES"),
    "open another worker's memory": (None, "EACCES", "EACCES"),
    "read another worker's environment": (None, "EACCES", "EACCES"),
    "take another worker's descriptor": (None, "EPERM", "EPERM"),
    "run threads": ("ok", "ok", "ok"),
    "run a program": ("ok", "ok", "ok"),
    "run Python below": ("ok", "ok", "ok"),
    "make a namespace": (None, None, "EPERM"),
    "make a process in a namespace": (None, None, "EPERM"),
    "change a mode": ("ok", "ok", "EPERM"),
    "trace the kernel": (None, None, "EPERM"),
    "use the kernel's keys": (None, "EPERM", "EPERM"),
    "watch page faults": (None, None, "EPERM"),
    "have a capability": (None, "EPERM", "EPERM"),
    "limit the daemon": ("ok", "EPERM", "EPERM"),
    "limit another process": ("ok", "EPERM", "EPERM"),
    "limit its own child": ("ok", "EPERM", "EPERM"),  # a filter knows no number but 0
    "limit itself": ("ok", "ok", "ok"),
    "slow another process": ("ok", "EPERM", "EPERM"),
    "slow another group": ("ok", "EPERM", "EPERM"),
    "slow itself": ("ok", "ok", "ok"),
    "bind another process to processors": ("ok", "EPERM", "EPERM"),
    "bind itself to processors": ("ok", "ok", "ok"),
    "schedule another process": ("ok", "EPERM", "EPERM"),
    "set another's scheduling": ("ok", "EPERM", "EPERM"),
    "set another's attributes of scheduling": (None, "EPERM", "EPERM"),
    "schedule itself": ("ok", "ok", "ok"),
    "slow another's disk": ("ok", "EPERM", "EPERM"),
    "choose another for lack of memory": (None, "EACCES", "EACCES"),
    "write another's memory": (None, "EACCES", "EACCES"),
    "move another's memory": (None, "EPERM", "EPERM"),
    "ask where another's memory is": (None, "EPERM", "EPERM"),
    "compare with another": (None, "EPERM", "EPERM"),
    "read another's locks": (None, "EPERM", "EPERM"),
    "advise another's memory": (None, "EACCES", "EACCES"),
    "make shared memory": (None, "EPERM", "EPERM"),
    "make a queue of messages": (None, "EPERM", "EPERM"),
    "take a lease on a file": (None, "EPERM", "EPERM"),
    "set times by a path": ("ok", "EPERM", "EPERM"),
    "set times inside by a path": ("ok", "EPERM", "EPERM"),
    "set times of an open file": ("ok", "ok", "ok"),
    "touch a file": ("ok", "ok", "ok"),
    "change a mode by a descriptor": ("ok", "ok", "EPERM"),
    "make a program that runs as its owner": ("ok", "EPERM", "EPERM"),
    "change an owner by a descriptor": ("ok", "ok", "EPERM"),
    "change an attribute by a descriptor": (None, None, "EPERM"),
    "change the flags of a file": (None, None, "EPERM"),
    "write all disks' caches": (None, None, "EPERM"),
    "use a repository": ("ok", "ok", "ok"),
    "run node": ("ok", "ok", "ok"),
    "end another's shared memory": (None, "EPERM", "EPERM"),
    "have a signal sent": ("ok", "EPERM", "EPERM"),
}
SHELL: dict[str, tuple[str | None, str | None, str | None]] = {
    "write outside": ("ok", "no", "no"),
    "remove a file outside": ("ok", "no", "no"),
    "write inside": ("ok", "ok", "ok"),
    "use temporary files": ("ok", "ok", "ok"),
    "read a here-document": ("ok", "ok", "ok"),
    "use a pipe": ("ok", "ok", "ok"),
    "write to the null device": ("ok", "ok", "ok"),
    "write to its standard error": ("ok", "ok", "ok"),
    "read the home": ("ok", "ok", "no"),
    "read hooks.toml": ("ok", "ok", "no"),
    "read where it is shown": ("ok", "ok", "ok"),
    "run what is shown": ("ok", "ok", "ok"),
    "run what is at home": ("ok", "ok", "no"),
    "connect by TCP": ("ok", "no", "no"),
    "connect to the admin socket": ("ok", "no", "no"),
    "signal the daemon": ("ok", "no", "no"),
    "read the daemon's environment": (None, "no", "no"),
    "limit the daemon": ("ok", "no", "no"),
    "limit another process": ("ok", "no", "no"),
    "limit itself": ("ok", "ok", "ok"),
    "slow another process": ("ok", "no", "no"),
    "be slow": ("ok", "ok", "ok"),
    "bind another process to a processor": ("ok", "no", "no"),
    "bind itself to a processor": ("ok", "ok", "ok"),
    "slow another's disk": ("ok", "no", "no"),
    "schedule another process": ("ok", "no", "no"),
    "set times": ("ok", "no", "no"),
    "set times inside": ("ok", "ok", "ok"),
    "change a mode": ("ok", "ok", "no"),
    "end another's shared memory": (None, "no", "no"),
    "copy": ("ok", "ok", "ok"),
    "edit in place": ("ok", "ok", None),
    "signal its own child": ("ok", "ok", "ok"),
    "list processes": ("ok", "ok", "ok"),
}
LEVELS = ("standard", "restricted", "strict")


class Found(NamedTuple):
    """What came of everything under one level."""

    python: dict[str, str]
    shell: dict[str, str]
    runtimes: list[str]
    calls: dict[str, str]


async def try_everything(level: str, network: bool) -> Found:
    with ground() as place:
        async with trying(place, place.table(level, network=network)) as (daemon, client):
            runtimes = [(await printed(client, name)).strip() for name in ("Trio", "Asyncio")]
            calls = {} if level == "standard" else await try_calls(client, level)
            shell = await try_shell(place, daemon, client)  # before the Python one ends the victim, where it can
            found = Found(await try_python(place, daemon, client), shell, runtimes, calls)
            in_force = {pool.isolation["in_force"] for pool in daemon.parts.sources.pools.values()}
            assert in_force == {level}
        assert not list((place.folder / "state").glob("tmp/*")), "a temporary folder was left"
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    cases = {level: (level, False) for level in LEVELS} | {"network": ("restricted", True), "never": ("strict", True)}
    return {name: trio.run(try_everything, *case) for name, case in cases.items()}


@pytest.mark.parametrize("attempt", PYTHON)
def test_what_comes_of_a_python_hooks_attempt(found: dict[str, Found], attempt: str) -> None:
    expected = PYTHON[attempt]

    seen = [found[level].python[attempt] for level in LEVELS]

    assert [
        one if wanted is not None else None for one, wanted in zip(seen, expected, strict=True)
    ] == [*expected], seen  # fmt: skip


@pytest.mark.parametrize("attempt", SHELL)
def test_what_comes_of_a_shell_hooks_attempt(found: dict[str, Found], attempt: str) -> None:
    expected = SHELL[attempt]

    seen = [found[level].shell[attempt] for level in LEVELS]

    assert [
        one if wanted is not None else None for one, wanted in zip(seen, expected, strict=True)
    ] == [*expected], seen  # fmt: skip


def test_every_call_that_a_level_refuses_is_refused_to_its_workers(found: dict[str, Found]) -> None:
    restricted, strict = found["restricted"].calls, found["strict"].calls

    assert set(restricted.values()) == {"EPERM"}, restricted
    assert {name for name in strict if strict[name] != "EPERM"} == {"clone3"}, strict
    assert {"prlimit64", "sched_setattr", "utimensat", "shmctl", "keyctl"} <= restricted.keys() <= strict.keys()


def test_every_attempt_is_judged(found: dict[str, Found]) -> None:
    assert PYTHON.keys() == found["strict"].python.keys()
    assert SHELL.keys() == found["strict"].shell.keys() == SHELL_ATTEMPTS.keys()


@pytest.mark.parametrize("level", LEVELS)
def test_both_async_runtimes_work(found: dict[str, Found], level: str) -> None:
    assert found[level].runtimes == ["hello 7", "hello 7"]


def test_a_network_opens_sockets_and_nothing_else(found: dict[str, Found]) -> None:
    before, after = found["restricted"].python, found["network"].python

    opened = {name for name in before if before[name] != after[name]}

    assert {"connect by TCP", "send by UDP", "listen by TCP", "make a pair of datagram sockets"} <= opened
    assert opened <= {
        "connect to the agent's socket", "connect to the admin socket", "connect by TCP", "send by UDP",
        "listen by TCP", "listen on a path", "make a pair of datagram sockets", "make a ring of requests",
    }  # fmt: skip
    assert after["connect to an abstract socket"] == "EPERM"
    assert after["signal the daemon"] == "EPERM"


def test_strict_has_no_network_whatever_the_key_says(found: dict[str, Found]) -> None:
    assert found["never"] == found["strict"]

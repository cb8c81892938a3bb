"""What docs/reference/fleet.md tells an administrator of the engine to type does mend it."""

from __future__ import annotations

import re
import shlex

import trio

from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import START, read_envelope, verify_manifests
from hooklatch.fleet.signing import make_key
from support.publishers import Bench
from support.redis_server import RedisServer, needs_redis
from support.repository import ROOT

pytestmark = needs_redis
PAGE = (ROOT / "docs" / "reference" / "fleet.md").read_text()


def test_a_version_that_nobody_believes_is_removed_and_publishing_goes_on(
    bench: Bench, shared_redis: RedisServer
) -> None:
    bench.push()
    shared_redis.command("XADD", f"hooklatch:{bench.fleet}:policy", "2-0", "d", "junk")
    spoilt = bench.run("rollback", "1", "--label", "ci")
    (line,) = re.findall(r"^redis-cli (.*17-0)$", PAGE, re.MULTILINE)  # on the page version 18 is the bad one

    own = line.replace("hooklatch:acme:", f"hooklatch:{bench.fleet}:").replace("17-0", "1-0")
    shared_redis.command(*shlex.split(own))
    mended = bench.json("rollback", "1", "--label", "ci")

    assert spoilt.code == 65, spoilt
    assert mended["version"] == 2


def test_after_a_change_of_keys_a_push_goes_on_from_what_the_old_key_signed(bench: Bench) -> None:
    new, file = make_key(), bench.place.folder / "new.key"
    file.touch(mode=0o600)
    file.write_text(new.text)
    bench.push()
    step = ("push", str(bench.hooks), "--label", "ci")

    untold = bench.run(*step, key=str(file))
    told = bench.run(*step, "--trust", bench.key.public.text, key=str(file))

    assert (untold.code, told.code) == (65, 0), told
    assert "give its public key with --trust" in untold.err

    async def read() -> list[bytes]:
        async with open_engine(bench.url, bench.fleet) as engine:
            return [data for _, data in await engine.versions(0)]

    envelopes = [read_envelope(data) for data in trio.run(read)]
    believed = verify_manifests(bench.fleet, START, envelopes, {new.public.id: new.public}).manifests
    assert [manifest.version for manifest in believed] == [2]  # a host that has only the new key applies nothing else

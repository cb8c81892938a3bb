"""What docs/fleet.md tells an administrator of the engine to type does mend it."""

from __future__ import annotations

import re

from support.publishers import Bench
from support.redis_server import RedisServer, needs_redis
from support.repository import ROOT

PAGE = (ROOT / "docs" / "fleet.md").read_text()


@needs_redis
def test_a_version_that_nobody_believes_is_removed_and_publishing_goes_on(
    bench: Bench, shared_redis: RedisServer
) -> None:
    bench.push()
    shared_redis.command("XADD", f"hooklatch:{bench.fleet}:policy", "2-0", "d", "junk")
    spoilt = bench.run("rollback", "1", "--label", "ci")
    typed = re.findall(r"^redis-cli (\w+) hooklatch:acme:policy (\d+)-0$", PAGE, re.MULTILINE)

    for word, number in typed:  # on the page version 18 is the bad one
        shared_redis.command(word, f"hooklatch:{bench.fleet}:policy", f"{int(number) - 16}-0")
    mended = bench.json("rollback", "1", "--label", "ci")

    assert [word for word, _ in typed] == ["XDEL", "XSETID"]
    assert spoilt.code == 65, spoilt
    assert mended["version"] == 2

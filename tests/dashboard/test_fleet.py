"""The page of a fleet, on a real dashboard and a real engine.

Slow: daemon, dashboard and engine are processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooklatch.fleet.engine.engine import Engine
from hooklatch.fleet.reports import GateCounts, ReportedPolicy
from hooklatch.fleet.signing import make_key
from support.browsers import check_reading, needs_browser, running_browser
from support.commands import new_place, serving
from support.dashboards import Visitor, dashboard
from support.redis_server import RedisServer, needs_redis, redis_server
from support.shipped import ask, tell

pytestmark = [pytest.mark.slow, needs_redis]
TABLE = '[fleet]\nname = "acme"\nhost = "me"\nurl = "{url}"\nkeys = ["{key}"]\nwhen_none = "serve"\n'
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def visitor(server: RedisServer) -> Iterator[Visitor]:
    """Yield a browser at the dashboard of a machine with [fleet]; two hosts have reported, and one is wrong."""

    async def report(engine: Engine) -> None:
        policies = {"base": ReportedPolicy(2, 1, "b"), "ci": ReportedPolicy(1, 1, "c")}
        await tell(engine, "build-1", policies=policies, problem=MARKUP, gates=GateCounts(1, 40, {"policy": 2}, 3))
        await tell(engine, "laptop", gates=GateCounts(1, 60, would_ask=7))

    ask(server, report, fleet="acme")
    hooks = TABLE.format(url=server.url, key=make_key().public.text)
    with new_place({"hooks.toml": hooks}) as place, serving(place), dashboard(place) as visitor:
        visitor.enter()
        yield visitor


def test_the_hosts_are_there_with_what_is_wrong_first(visitor: Visitor) -> None:
    page = visitor.page("/fleet")

    assert page.status == 200
    assert "2 hosts, 0 silent, 1 with something wrong" in page.text
    assert "base 2, ci 1" in page.text
    assert page.text.index("build-1") < page.text.index("laptop")
    assert "3 of 100 gates would have been denied too, and 7 asked about, by hooks that only observe" in page.text
    assert 'data-label="Would ask" class="number">7<' in page.text
    assert MARKUP not in page.text
    assert "alert(1)" in page.text
    assert '/fleet" aria-current="page">Fleet' in page.text


@needs_browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 400)])
def test_the_hosts_can_be_read_by_everybody(visitor: Visitor, scheme: Any, width: int) -> None:
    name, _, value = visitor.cookie.partition("=")
    with running_browser() as browser:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.add_cookies([{"name": name, "value": value, "url": f"{visitor.origin}{visitor.base}/"}])
        page = context.new_page()
        page.goto(f"{visitor.origin}{visitor.base}/fleet")
        page.wait_for_selector("body[data-heard]")
        shown = page.inner_text("main")
        check_reading(page, f"fleet, {scheme}")

    assert "build-1" in shown


def test_an_engine_that_is_away_is_said_on_the_page(tmp_path: Path) -> None:
    hooks = TABLE.format(url=f"redis+unix://{tmp_path}/none", key=make_key().public.text)
    with new_place({"hooks.toml": hooks}) as place, serving(place), dashboard(place) as visitor:
        visitor.enter()
        page = visitor.page("/fleet")

    assert page.status == 200
    assert "Which hosts the fleet has is not known." in page.text
    assert "cannot be reached" in page.text


def test_a_machine_without_a_fleet_has_no_such_page() -> None:
    with new_place({}) as place, serving(place), dashboard(place) as visitor:
        visitor.enter()
        page, overview = visitor.page("/fleet"), visitor.page("/")

    assert page.status == 404
    assert "/fleet" not in overview.text

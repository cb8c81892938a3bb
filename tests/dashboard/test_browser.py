"""The dashboard in a real browser: entered, live, by keyboard alone, and as axe-core and narrow screens see it.

Slow: a daemon, a dashboard and a headless chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from support.browsers import check_reading, needs_browser, running_browser
from support.commands import Place, payload
from support.dashboards import Visitor, dashboard

pytestmark = [pytest.mark.slow, needs_browser]

PAGES = {
    "overview": "/",
    "hooks": "/hooks",
    "hook": "/hook?name=global/guards:no_force_push",
    "failures": "/hook?name=global/guards:formatter",
    "sessions": "/sessions",
    "revisions": "/revisions",
    "record": "/record",
    "counts": "/counts?span=7d",
    "decisions": "/record?verdict=deny",
    "suspensions": "/suspensions",
    "asks": "/asks",
    "confirm": "/do/suspend?hook=global/guards:no_force_push",
    "missing": "/nothing",
}
# A page is loaded on the first screen of a row, and then seen on the others: a load takes as much as a look.
SCREENS = [[("light", 1440), ("dark", 1440), ("light", 1024)], [("dark", 400)]]


@pytest.fixture(scope="module")
def entered(browser: Any, place: Place) -> Iterator[tuple[Any, Visitor, list[str]]]:
    """A page of a browser that has come by the address, and what it complained of."""
    complaints: list[str] = []
    with dashboard(place) as visitor:
        context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(visitor.url)
        page.wait_for_url(f"{visitor.origin}{visitor.base}/")
        yield page, visitor, complaints
        context.close()


@pytest.fixture(scope="module")
def browser(place: Place) -> Iterator[Any]:
    with running_browser() as browser:
        yield browser


def visit(page: Any, visitor: Visitor, path: str) -> None:
    page.goto(f"{visitor.origin}{visitor.base}{path}")
    page.wait_for_selector("body[data-heard]")


def test_the_address_leads_to_the_overview_and_no_script_of_others_runs(
    entered: tuple[Any, Visitor, list[str]],
) -> None:
    page, visitor, complaints = entered

    visit(page, visitor, "/")
    for summary in page.query_selector_all("#decisions summary"):
        summary.click()

    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""
    assert "<script>alert" in page.inner_text("#decisions")
    assert page.query_selector_all("#decisions script, #decisions img") == []
    assert complaints == []


def test_a_decision_appears_as_it_is_made(entered: tuple[Any, Visitor, list[str]], place: Place) -> None:
    page, visitor, _ = entered
    visit(page, visitor, "/")
    first = page.get_attribute("#decisions li", "data-id")

    place.fire_tool("Bash", command="git push --force live")
    page.wait_for_selector(f"#decisions li:first-child:not([data-id='{first}'])")
    page.click("#decisions li:first-child summary")

    assert "no_force_push deny" in page.inner_text("#decisions li:first-child").replace("\n", " ")
    assert page.inner_text("#heard") == "1 decisions since this page was opened"


def test_an_ask_appears_and_is_answered(entered: tuple[Any, Visitor, list[str]], place: Place) -> None:
    page, visitor, _ = entered
    visit(page, visitor, "/")
    call = place.folder / "call.json"
    call.write_text(payload("Deploy", target="production"))
    fired = place.begin("fire", "pre_tool_use", "--payload", str(call))

    page.wait_for_selector("#waiting:not([hidden])")
    assert page.title() == "(1) Overview · hooklatch"
    assert page.inner_text("#waiting").startswith("1")
    assert "production" in page.inner_text("#asks .subject")
    page.click("#asks a.button")
    page.fill("#reason", "not on a Friday")
    check_reading(page, "ask")
    page.press("#reason", "Enter")  # what one presses without a thought lets nothing through

    assert "is deny" in page.inner_text(".notice")
    code, out, _ = fired.end()
    assert code == 2
    assert "not on a Friday" in out


def test_everything_is_reached_by_keyboard(entered: tuple[Any, Visitor, list[str]], place: Place) -> None:
    page, visitor, _ = entered
    visit(page, visitor, "/")

    def go_to(text: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            focused = page.evaluate("document.activeElement.innerText || document.activeElement.name || ''")
            if focused.strip().startswith(text):
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"{text} has the focus, and nobody sees it"
                return
        raise AssertionError(f"no Tab leads to {text!r}")

    def enter() -> None:
        with page.expect_navigation():
            page.keyboard.press("Enter")

    for text in ("Hooks", "global/guards:no_scripts", "Suspend"):
        go_to(text)
        enter()
    go_to("reason")
    page.keyboard.type("by keyboard")
    go_to("Suspend")
    enter()
    suspended = place.json("status", code=1)["suspended"]
    visit(page, visitor, "/")
    check_reading(page, "red")
    assert "Needs attention" in page.inner_text("#status")
    visit(page, visitor, "/suspensions")
    go_to("End it")
    enter()
    go_to("reason")
    page.keyboard.type("enough")
    enter()
    page.wait_for_selector(".notice")

    assert [(one["hook"], one["reason"]) for one in suspended] == [("global/guards:no_scripts", "by keyboard")]
    assert place.json("status")["suspended"] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read_by_everybody(entered: tuple[Any, Visitor, list[str]], name: str) -> None:
    page, visitor, _ = entered

    for screens in SCREENS:
        for number, (scheme, width) in enumerate(screens):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            if number == 0:
                visit(page, visitor, PAGES[name])
                if name == "overview":
                    for summary in page.query_selector_all("#decisions summary, .timeline summary")[:3]:
                        summary.click()
            check_reading(page, f"{scheme}, {width}")
    page.set_viewport_size({"width": 1200, "height": 900})


def test_the_filters_of_the_record_take_little_of_a_narrow_screen(entered: tuple[Any, Visitor, list[str]]) -> None:
    page, visitor, _ = entered
    page.set_viewport_size({"width": 400, "height": 900})
    fields = "[...document.querySelectorAll('[aria-label=Filters] input, [aria-label=Filters] select')]"
    boxes = f"{fields}.filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect())"

    visit(page, visitor, "/record")
    height = page.eval_on_selector("form[aria-label=Filters]", "(one) => one.offsetHeight")
    shown = page.evaluate(boxes)
    visit(page, visitor, "/record?tool=Bash")
    opened = page.evaluate(boxes)
    page.set_viewport_size({"width": 1200, "height": 900})

    assert height < 300
    assert len(shown) == 5
    assert len(opened) == 14  # of which one is chosen: none that is in force is hidden
    assert all(box["width"] > 150 and box["right"] < 400 for box in (*shown, *opened))


def test_a_click_on_the_time_line_shows_the_decisions_of_that_time(entered: tuple[Any, Visitor, list[str]]) -> None:
    page, visitor, complaints = entered
    complaints.clear()  # a page that is missing, which other tests visit, is one
    visit(page, visitor, "/")
    times, counts = page.eval_on_selector(".chart", "(one) => [one.dataset.times, one.dataset.counts].map(JSON.parse)")
    decided = [number for number, of_kinds in enumerate(counts) if any(of_kinds)]
    empty = [number for number in range(len(times)) if number not in decided]

    for part in (0.1, 0.7):  # of the hour: a bar takes 0.8 of it
        click_on_the_time_line(page, times[decided[-1]], part)
        assert f"&since={iso(times[decided[-1]])}&until={iso(times[decided[-1]] + 3600)}" in page.url
        assert page.query_selector_all("table.records tbody tr")

        visit(page, visitor, "/")
        click_on_the_time_line(page, times[empty[3]], part)
        assert f"&since={iso(times[empty[3]])}&until={iso(times[empty[3]] + 3600)}" in page.url
        assert not page.query_selector_all("table.records tbody tr")

        visit(page, visitor, "/")
    assert complaints == []


def click_on_the_time_line(page: Any, since: int, part: float) -> None:
    """Click within an hour of the chart, which is asked where that is, and wait for the page that it leads to."""
    box = page.wait_for_selector(".chart .u-over").bounding_box()
    left = page.eval_on_selector(".chart", "(one, at) => one.chart.valToPos(at, 'x')", since + 3600 * part)
    page.mouse.move(box["x"] + left, box["y"] + box["height"] / 2)
    with page.expect_navigation():
        page.mouse.down()
        page.mouse.up()


def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def test_the_time_line_is_a_table_of_links_without_a_script(browser: Any, place: Place) -> None:
    with dashboard(place) as visitor:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(visitor.url)
        page.goto(f"{visitor.origin}{visitor.base}/")
        page.click(".timeline summary")
        page.click(".timeline table a >> nth=0")

        assert page.query_selector_all("table.records tbody tr")
        context.close()


def test_no_badge_breaks_on_a_wide_screen(entered: tuple[Any, Visitor, list[str]]) -> None:
    page, visitor, _ = entered
    page.set_viewport_size({"width": 1440, "height": 900})
    visit(page, visitor, "/hooks")

    heights = page.evaluate("[...document.querySelectorAll('.state')].map((one) => one.getClientRects().length)")

    assert heights
    assert set(heights) == {1}
    page.set_viewport_size({"width": 1200, "height": 900})


def test_a_page_says_when_nothing_is_known_any_more(browser: Any, place: Place) -> None:
    context = browser.new_context()
    page = context.new_page()
    with dashboard(place) as visitor:
        page.goto(visitor.url)
        page.wait_for_url(f"{visitor.origin}{visitor.base}/")
        page.wait_for_selector("body[data-heard]")
        before = page.is_visible("#lost")

    page.wait_for_selector("body.stale")

    check_reading(page, "lost")
    assert not before
    assert not page.is_visible("#status")
    assert "how things are now is not known" in page.inner_text("#lost")
    context.close()

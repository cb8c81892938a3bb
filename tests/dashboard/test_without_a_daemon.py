"""The dashboard while there is no daemon, and once one comes and goes: what is not answered is not known.

Slow: a dashboard and a daemon are processes of their own.
"""

from __future__ import annotations

import pytest

from support.commands import new_place, serving
from support.dashboards import dashboard, shown
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow

PAGES = ("/", "/hooks", "/sessions", "/revisions", "/record", "/suspensions", "/asks")


def test_what_no_daemon_answers_is_not_known_and_never_well() -> None:
    with nobody_survives() as word, new_place({}) as place:
        place.environment["HOOKLATCH_TEST_COOKIE"] = word
        with dashboard(place) as visitor:
            visitor.enter()
            before = {path: shown(visitor, path) for path in PAGES}
            refused = visitor.post("/do/reload", reason="why")
            with serving(place):
                meanwhile = shown(visitor, "/")
            after = shown(visitor, "/")

    for path, text in {**before, "after": after}.items():
        assert "no daemon is reachable at" in text, path
        assert "not known" in text.lower(), path
        assert "All is well" not in text, path
        assert "Nothing " not in text, path
    assert refused.status == 409
    assert "Not done" in refused.text
    assert "not known" not in meanwhile.lower()

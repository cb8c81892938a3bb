"""The real programs that speak Claude Code's dialect, with hooklatch installed.

Slow: they start programs of some hundred megabytes, and daemons.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hooklatch.shelltext.tools import NAMES
from real_hosts.cases import names_in
from real_hosts.guarded import DAEMON, guarded
from real_hosts.hosts.speakers import SPEAKERS, Speaker
from real_hosts.theatre import Stage, on_stage, why_there_is_no_namespace
from support.commands import serving
from support.survivors import nobody_survives

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE = 240  # seconds; a busy machine takes a minute for a start


@pytest.fixture(scope="module", params=SPEAKERS.values(), ids=list(SPEAKERS))
def host(request: pytest.FixtureRequest) -> Speaker:
    speaker: Speaker = request.param
    if reason := speaker.program.why_not or why_there_is_no_namespace():
        pytest.skip(reason)
    return speaker


@pytest.fixture(scope="module")
def the_stage(host: Speaker) -> Iterator[Stage]:
    with nobody_survives(), on_stage() as stage:
        yield stage


def test_a_refused_call_does_not_run_and_the_others_do(host: Speaker, the_stage: Stage) -> None:
    # A refusal may end the session, so what is allowed comes first.
    with guarded(host, the_stage) as it, serving(it.ground):
        outcome = it.play(it.turn("pass"), it.turn("raise"), it.turn("deny"), patience=PATIENCE)
        ran = {path.stem for path in it.place.folder.glob("*.ran")}
        offered = {name for request in outcome.requests for name in names_in(request["body"].get("tools"))}

    assert ran == {"pass"}, outcome.stdout + outcome.stderr
    told = outcome.told_of("main", 1) or outcome.stdout + outcome.stderr
    assert "raise_guard" in told or host.name == "cline", told  # Cline shows no reason when it ends the session
    assert offered <= NAMES


def test_without_a_daemon_no_call_runs_and_uninstall_gives_the_bytes_back(host: Speaker, the_stage: Stage) -> None:
    with guarded(host, the_stage, is_installed=False) as it:
        path = it.place.home / host.settings
        before = path.read_bytes() if path.exists() else None
        it.install()
        installed = path.read_bytes()

        outcome = it.play(it.turn("no_daemon"), patience=PATIENCE)
        ran = list(it.place.folder.glob("*.ran"))
        done = it.command("uninstall", host.name)

        assert installed != before
        assert done.exit_code == 0, done.stderr
        after = path.read_bytes() if path.exists() else None
        assert after == before or (host.writes_settings and after is not None and b"hooklatch" not in after)
    assert not ran
    # Grok says nothing of a prompt that was refused, and Cline nothing of a call.
    is_told = any(text in outcome.everything for text in (DAEMON, "hooklatch refused this prompt: it is not running"))
    assert is_told or host.name in ("cline", "grok"), outcome.stdout + outcome.stderr

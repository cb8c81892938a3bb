"""What entries say without a daemon, beside what the daemon says of each host.  OpenCode's plugin starts no entry."""

from __future__ import annotations

from hooklatch.entry.refusals import FORMS, SILENCES, VARIABLES, failure
from hooklatch.hosts.find import find, names
from hooklatch.hosts.host import HookOutput
from support.honoured import GATES, effect
from support.tables import table


@table(("host", "event"), [gate for gate in GATES if gate[0] != "opencode"])
def test_a_refusal_without_a_daemon_blocks_what_was_measured_to_block(host: str, event: str) -> None:
    code, stdout, stderr = failure(host, event, "gate", "late")

    assert effect(host, event, HookOutput(code, stdout.decode(), stderr.decode())).done == "blocked"


@table("name", [name for name in names() if name != "opencode"])
def test_what_cannot_be_refused_is_silent_as_the_daemon_is(name: str) -> None:
    host = find(name)
    for event, spec in host.events.items():
        if spec.kind != "gate":
            theirs = host.failure(event, "no_daemon", "why")
            assert failure(name, event, spec.kind, "late") == (theirs.exit_code, theirs.stdout.encode(), b""), event


def test_every_form_is_for_a_host_and_an_event_that_there_are() -> None:
    assert FORMS.keys() <= {(name, event) for name in names() for event in find(name).events}
    assert SILENCES.keys() <= set(names())


def test_what_hosts_read_of_their_environment_is_passed_on() -> None:
    assert {variable for name in names() for variable in find(name).project_variables} <= set(VARIABLES)

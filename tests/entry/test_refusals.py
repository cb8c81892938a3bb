"""What entries say without a daemon, beside what the daemon says of each host."""

from __future__ import annotations

from hooklatch.entry.refusals import FORMS, SILENCES, VARIABLES, make_failure_output
from hooklatch.hosts.find import find_host, list_hosts
from hooklatch.hosts.host import HookOutput
from support.honoured import GATES, effect
from support.tables import table


@table(("host", "event"), GATES)
def test_a_refusal_without_a_daemon_blocks_what_was_measured_to_block(host: str, event: str) -> None:
    code, stdout, stderr = make_failure_output(host, event, "gate", "late")

    assert effect(host, event, HookOutput(code, stdout.decode(), stderr.decode())).done == "blocked"


@table("name", list_hosts())
def test_what_cannot_be_refused_is_silent_as_the_daemon_is(name: str) -> None:
    host = find_host(name)
    for event, spec in host.events.items():
        if spec.kind != "gate":
            theirs = host.failure(event, "no_daemon", "why")
            assert make_failure_output(name, event, spec.kind, "late") == (
                theirs.exit_code,
                theirs.stdout.encode(),
                b"",
            ), event


def test_every_form_is_for_a_host_and_an_event_that_there_are() -> None:
    assert FORMS.keys() <= {(name, event) for name in list_hosts() for event in find_host(name).events}
    assert SILENCES.keys() <= set(list_hosts())


def test_what_hosts_read_of_their_environment_is_passed_on() -> None:
    assert {variable for name in list_hosts() for variable in find_host(name).project_variables} <= set(VARIABLES)

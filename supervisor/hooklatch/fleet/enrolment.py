"""The hosts that an operator has enrolled in a fleet or retired from it, by the events that he has put on record.

    enrolled(host, key)  ─▶  readers believe what that key has signed, and nothing else under that name
    retired(host)        ─▶  its log stays; that it reports again is a finding

Only operators may write events.  Until a host is enrolled in a fleet, none of its hosts is proven to be the one that
it says; from then on a name that was never enrolled is a finding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from hooklatch.fleet.engine.engine import Engine, EngineRefusedError, StoredReport
from hooklatch.fleet.identity import find_report_fault
from hooklatch.fleet.manifests import FleetError, Name, decode_document
from hooklatch.fleet.reports import read_report
from hooklatch.fleet.signing import KeyFormatError, PublicKey, read_public

__all__ = [
    "NOBODY",
    "Enrolments",
    "EnrolmentEvent",
    "describe_retirement",
    "read_enrolments",
    "read_events",
]

NOT_YET = "it was enrolled and has not joined yet, so who reports in its name is another process"
NEVER = "nobody has proven that this is a host of the fleet: it was never enrolled, and others are"


class EnrolmentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The enrolment or the retirement of a host by an operator, at a time in ms by the engine's clock.

    `key` is the public key that a host was enrolled with, or that it has registered at `slot` when it joined, if it
    has.  A host that was renamed is retired, and `to` is its new name.
    """

    event: Literal["enrolled", "retired"]
    host: Name
    at: int
    by: str = ""
    reason: str = ""
    key: str = ""
    to: str = ""
    slot: str = ""


class Enrolments:
    """The newest event of each host.  Hosts may not read them."""

    def __init__(self, events: Iterable[EnrolmentEvent] = (), *, is_readable: bool = True) -> None:
        self.is_readable = is_readable
        self._events = {event.host: event for event in events}
        self.is_used = any(event.event == "enrolled" for event in self._events.values())

    def find_retirement(self, host: str) -> EnrolmentEvent | None:
        """Return the event of a host that is retired."""
        event = self._events.get(host)
        return event if event is not None and event.event == "retired" else None

    def find_key(self, host: str) -> PublicKey | None:
        """Return the key that a host is enrolled with.

        Raises:
            FleetError: it is not a key.
        """
        event = self._events.get(host)
        if event is None or event.event != "enrolled" or not event.key:
            return None
        try:
            return read_public(event.key)
        except KeyFormatError as error:
            raise FleetError(f"the key that {host} was enrolled with cannot be read: {error}") from None

    def list_strangers(self, host: str) -> list[str]:
        """Return a text if a host was never enrolled in a fleet in which others are, or has not joined yet."""
        event = self._events.get(host)
        if event is None:
            return [NEVER] if self.is_used else []
        return [NOT_YET] if event.event == "enrolled" and not event.key else []

    def list_faults(self, fleet: str, report: StoredReport) -> list[str]:
        """Return what is wrong with who a host is, by its report; what else is wrong with that, others find."""
        host = report.host
        if (retired := self.find_retirement(host)) is not None:
            return [f"{describe_retirement(retired)}, and it has reported since"] if report.at > retired.at else []
        faults = self.list_strangers(host)
        try:
            fault = find_report_fault(fleet, read_report(report.data, host), report.data, self.find_key(host))
        except FleetError:
            return faults
        return faults if fault is None else [fault, *faults]


NOBODY = Enrolments()


def describe_retirement(event: EnrolmentEvent) -> str:
    to = f", and is called {event.to} now" if event.to else ""
    return f"it was retired by {event.by or 'an operator'}: {event.reason}{to}"


async def read_enrolments(engine: Engine, *, is_required: bool = False) -> Enrolments:
    """Return the enrolments of a fleet; none for a host, which may not read them, unless they are required."""
    try:
        return Enrolments(await read_events(engine))
    except EngineRefusedError:
        if is_required:
            raise
        return Enrolments(is_readable=False)


async def read_events(engine: Engine) -> list[EnrolmentEvent]:
    """Return the events, with the keys that hosts have registered."""
    events: list[EnrolmentEvent] = []
    for text in await engine.events():
        event = decode_document(text, EnrolmentEvent, "an event of a host's enrolment")
        if event.slot and not event.key:
            event = msgspec.structs.replace(event, key=await engine.registered_key(event.host, event.slot))
        events.append(event)
    return events

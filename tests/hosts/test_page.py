"""The page of hosts says what the tables in force say."""

from __future__ import annotations

from hooklatch.hosts.find import find_host, list_hosts
from hooklatch.hosts.host import HostEventSpec
from support.repository import ROOT
from support.tables import table

PAGE = (ROOT / "docs" / "reference" / "host-events.md").read_text()
ORDER = ("allow", "deny", "ask", "halt", "patch", "context", "resume")
OTHERS = [name for name in list_hosts() if name not in ("claude-code", "generic")]  # a page of its own; the catalogue


def row(name: str, event: HostEventSpec) -> str:
    after = event.after or HostEventSpec()  # that tells what ran, by the same document
    can = ", ".join(word for word in ORDER if word in event.enforces | after.enforces) or "nothing"
    events = ", ".join(f"`{fired}`" for fired in (event.event, after.event) if fired) or "-"
    return f"| {name} | {events} | {event.kind} | {can} |"


@table("host", OTHERS)
def test_the_page_has_a_hosts_table_as_it_is_in_force(host: str) -> None:
    section = PAGE.partition(f"\n## {find_host(host).title}\n")[2].partition("\n## ")[0]

    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert rows == [row(name, event) for name, event in find_host(host).events.items()]

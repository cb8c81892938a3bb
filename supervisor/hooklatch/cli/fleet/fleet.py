"""The command `fleet`, one policy on many machines: the table of the commands below it."""

from __future__ import annotations

from hooklatch.cli.terminal.parser import Parser

__all__ = ["add_fleet"]

BELOW = (
    ("keygen", "fleet.keys", "make a pair of keys: a publisher signs with one, hosts believe the other"),
    ("keys", "fleet.keys", "say which keys may sign what, and change them without editing a host's file"),
    ("push", "fleet.push", "check and test a folder of hooks, and make it the newest version"),
    ("rollout", "fleet.rollout", "give a version to more hosts, at once or in steps that hold"),
    ("rollback", "fleet.rollout", "make an earlier bundle the newest version again"),
    ("observe", "fleet.rollout", "have hosts only observe a policy for a while, or enforce it again"),
    ("restore", "fleet.history", "put back what the engine has lost, from what this machine keeps; no key is needed"),
    ("timestamp", "fleet.keys", "sign that the newest version still is, from a timer between pushes"),
    ("diff", "fleet.history", "show what two versions differ in, or a version and a folder"),
    ("reset", "daemon.stop", "let this host read all versions from the first one again; this is recorded"),
    ("history", "fleet.history", "list all versions, verified"),
    ("status", "fleet.status", "list the hosts: which version each has, when it was last seen, and what is wrong"),
    ("enroll", "fleet.enrolment", "put on record that a host is one of the fleet, with the key that it signs with"),
    ("retire", "fleet.enrolment", "put on record that a host is no more, or is called otherwise; its log stays"),
    ("log", "fleet.log", "show the decisions of all hosts, as `hooklatch log` shows those of one"),
    ("verify", "fleet.log", "find records that hosts left out, changed, or shipped differently, as far as possible"),
    ("export", "fleet.export", "send the decisions of all hosts on to another system"),
    ("archive", "fleet.export", "keep versions, decisions and reports in files, which these commands read as well"),
    ("trim", "fleet.export", "remove old decisions from the engine, and keep a note of it"),
)


def add_fleet(parser: Parser) -> None:
    parser.explain(example="hooklatch fleet keygen --out fleet.key")
    parser.add_commands(BELOW, required=True)

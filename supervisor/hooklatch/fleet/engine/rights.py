"""The rights at the engine of a host's two users, as examples/fleet has them: for ACL SETUSER."""

from __future__ import annotations

import hashlib

__all__ = ["find_user", "list_host_rights", "list_join_rights"]

OF_HOST = (
    "-@all +time +get +xread +xlen +xrange +xrevrange +xinfo|stream +xadd +sadd +smembers +hgetall +setnx +info|memory"
    " resetchannels resetkeys %R~hooklatch:FLEET:policy %R~hooklatch:FLEET:timestamp %R~hooklatch:FLEET:keys"
    " %R~hooklatch:FLEET:bundle:* %R~hooklatch:FLEET:trimmed:HOST"
    " %RW~hooklatch:FLEET:log:HOST:* %RW~hooklatch:FLEET:host:HOST %RW~hooklatch:FLEET:key:HOST:*"
)
OF_JOIN = "-@all +time +getdel resetchannels resetkeys %RW~hooklatch:FLEET:token:HOST"


def find_user(host: str, kind: str = "host") -> str:
    """Return the engine's user of a host, or that of the kind `join`."""
    return f"{kind}-{host}"


def list_host_rights(fleet: str, host: str, password: str) -> list[str]:
    """Return the rules of the user with which a host's link connects."""
    return list_rules(OF_HOST, fleet, host, password)


def list_join_rights(fleet: str, host: str, password: str) -> list[str]:
    """Return the rules of the user that may take the one thing that a token is exchanged for, once."""
    return list_rules(OF_JOIN, fleet, host, password)


def list_rules(rights: str, fleet: str, host: str, password: str) -> list[str]:
    digest = hashlib.sha256(password.encode()).hexdigest()
    return ["reset", "on", f"#{digest}", *rights.replace("FLEET", fleet).replace("HOST", host).split()]

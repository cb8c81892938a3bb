"""The rights at the engine of a host's two users, as examples/fleet has them: for ACL SETUSER."""

from __future__ import annotations

import hashlib

__all__ = ["find_user", "list_rights"]

OF_USERS = {
    "host": (
        "-@all +time +get +xread +xlen +xrange +xrevrange +xinfo|stream +xadd +sadd +smembers +hgetall +setnx"
        " +info|memory resetchannels resetkeys %R~hooklatch:FLEET:policy %R~hooklatch:FLEET:timestamp"
        " %R~hooklatch:FLEET:keys %R~hooklatch:FLEET:bundle:* %R~hooklatch:FLEET:trimmed:HOST"
        " %RW~hooklatch:FLEET:log:HOST:* %RW~hooklatch:FLEET:host:HOST %RW~hooklatch:FLEET:key:HOST:*"
    ),
    "join": "-@all +time +getdel resetchannels resetkeys %RW~hooklatch:FLEET:token:HOST",
}


def find_user(host: str, kind: str = "host") -> str:
    """Return the engine's user of a host: the one with which its link connects, or that of the kind `join`."""
    return f"{kind}-{host}"


def list_rights(fleet: str, host: str, kind: str, password: str) -> list[str]:
    """Return the rules of a host's user; that of the kind `join` may take what a token is exchanged for, once."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    return ["reset", "on", f"#{digest}", *OF_USERS[kind].replace("FLEET", fleet).replace("HOST", host).split()]

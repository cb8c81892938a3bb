"""A host's way into a fleet: the token that an operator's `fleet enroll` makes, and what `join` makes of it.

    enroll ─▶ token ─▶ join ─▶ the engine's word, once and for an hour ─▶ password ─▶ the host's key, registered once

The password is made of the token's secret and that word, so neither alone is one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

import msgspec

from hooklatch.fleet.engine.engine import Engine, add_user
from hooklatch.fleet.engine.rights import find_user
from hooklatch.fleet.manifests import FleetError, Name

__all__ = ["JoinToken", "encode_token", "find_user", "make_password", "read_token", "register", "send_invitation"]

PREFIX = "hooklatch-join-"
SECONDS = 3600  # for which a token is good
MAX_TOKEN = 64 * 1024


class JoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """All that a host needs to join.  `slot` is where it registers its key, and `ca` the text of certificates."""

    url: str
    fleet: Name
    host: Name
    labels: tuple[Name, ...] = ()
    keys: tuple[str, ...]
    ca: str = ""
    secret: str
    slot: str

    def url_as(self, user: str) -> str:
        return add_user(self.url, find_user(self.host, user))


def encode_token(token: JoinToken) -> str:
    """Return a token as one word."""
    return PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def read_token(text: str) -> JoinToken:
    """Read a token.

    Raises:
        FleetError: it is none.
    """
    text = "".join(text.split())
    try:
        if not text.startswith(PREFIX) or len(text) > MAX_TOKEN:
            raise ValueError("it does not begin as one does")
        return msgspec.json.decode(base64.urlsafe_b64decode(text.removeprefix(PREFIX)), type=JoinToken)
    except (ValueError, msgspec.MsgspecError) as error:
        raise FleetError(f"this is not a token of `hooklatch fleet enroll`, or a part of one: {error}") from None


def make_password(secret: str, word: str) -> str:
    """Return a host's password for the engine."""
    return hashlib.sha256(f"{secret} {word}".encode()).hexdigest()


async def send_invitation(engine: Engine, host: str) -> tuple[str, str]:
    """Make the host's users at the engine; return the secret of the token, and the slot of the host's key."""
    secret, word, slot = secrets.token_urlsafe(24), secrets.token_hex(16), secrets.token_hex(8)
    await engine.invite(host, secret, make_password(secret, word), word, SECONDS)
    return secret, slot


async def register(engine: Engine, token: JoinToken, key: str) -> None:
    """Register the public key of a host that joins.

    Raises:
        FleetError: another key was registered.
    """
    registered = await engine.register_key(token.host, token.slot, key)
    if registered != key:
        raise FleetError(f"another machine has joined as {token.host} with this token: enroll the host again")

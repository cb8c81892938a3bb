"""The settings of the record: when it is written, for how long, and which part of a payload it has."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["REDACTED_KEYS", "REDACTED_TEXTS", "Durability", "PayloadMode", "RecordSettings"]

Durability = Literal["written", "sync"]
PayloadMode = Literal["excerpt", "full"]
MIB = 2**20

# Keys of a payload, at any depth, whose values never reach the record (globs, in any case).
REDACTED_KEYS = (
    "*password*", "*passwd*", "*passphrase*", "*secret*", "*token", "*tokens", "*api_key*", "*apikey*", "*api-key*",
    "*private_key*", "*credential*", "authorization", "cookie", "set-cookie",
)  # fmt: skip
# A text between quotes, up to the end of its line; between escaped ones; or a word.
VALUE = r"""(?:"(?:[^"\\\n]|\\.)+"?|'(?:[^'\\\n]|\\.)+'?|\\+["'][^"'\n]+["']?|[^\s"'&;,]+)"""
# Patterns (RE2) that are replaced anywhere in a text: the forms in which well-known services issue their keys.
REDACTED_TEXTS = (
    r"\bsk-[A-Za-z0-9_-]{16,}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{16,}",
    r"\b(AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\b[sr]k_(live|test)_[A-Za-z0-9]{10,}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+",
    r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/-]{16,}=*",
    # NAME=value, name: "a value", {"name": "a value"}, the same with its quotes escaped; and --name value.
    r"(?i)\b[a-z0-9_-]*(password|passwd|passphrase|secret|token|api[_-]?key|private[_-]?key)[a-z0-9_]*\\*[\"']?\s*[=:]\s*"
    + VALUE,
    r"(?i)--?[a-z0-9-]*(password|passwd|passphrase|secret|token|api-?key)\s+" + VALUE,
    r"(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@\"']*:[^\s/@\"']+@",
    # A whole key: its lines may be joined by a backslash and an n.
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,-]*",
)  # fmt: skip


class RecordSettings(msgspec.Struct, frozen=True):
    """The `[record]` table, and `record` of `[daemon]`.

    `written`: in the file before a gate's answer leaves, on the disk within 50 ms; `sync`: on the disk before.
    Sizes are bytes, ages seconds.  The three `*_bytes` of free space are the stages of a disk that is nearly full.
    `keep_unshipped_bytes`: how much of what a fleet's engine has not acknowledged is kept in spite of the limits of
    size and age; None without a fleet.
    """

    durability: Durability = "written"
    segment_bytes: int = 64 * MIB
    segment_age: float = 24 * 3600.0
    keep_bytes: int = 1024 * MIB
    keep_age: float = 30 * 24 * 3600.0
    excerpt_bytes: int = 512
    redact: tuple[str, ...] = REDACTED_KEYS
    redact_text: tuple[str, ...] = REDACTED_TEXTS
    low_bytes: int = 512 * MIB
    critical_bytes: int = 128 * MIB
    full_bytes: int = 32 * MIB
    keep_unshipped_bytes: int | None = None
    payloads: PayloadMode = "excerpt"  # "full": each is kept whole too, in a file beside the record
    payloads_bytes: int = 256 * MIB
    payloads_age: float = 7 * 24 * 3600.0
    skipping: bool = True  # of events without a hook: clients that ask may count them, and are recorded by their counts

"""A state file that a test writes itself, with the witness that a daemon would have left beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hooklatch.service.config.state_file import StateWitness

__all__ = ["put_state"]


def put_state(folder: Path, text: str) -> None:
    """Have the state folder hold this state, as if it were the one that was written last."""
    (folder / "state.json").write_text(text)
    StateWitness(str(folder)).allow_only(hashlib.sha256(text.encode()).hexdigest())

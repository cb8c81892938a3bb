"""Where the repository's own files are, for tests that read them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CALLBACKS", "RECORDED", "ROOT", "TESTS"]

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
CALLBACKS = TESTS / "callbacks"  # sources of hooks that behave and misbehave
RECORDED = TESTS / "data" / "claude-code-2.1.330"  # documents that the real program has sent

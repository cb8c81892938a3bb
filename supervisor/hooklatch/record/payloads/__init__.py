"""Payloads that are kept whole, in files of their own beside the record."""

from __future__ import annotations

"""Durations on the command line: a number with its unit, or a bare number of seconds, as in a file of hooks."""

from __future__ import annotations

import argparse

from hooklatch.core.text import read_duration

__all__ = ["parse_duration"]


def parse_duration(text: str) -> float:
    """Parse a positive duration; an argparse type that returns seconds."""
    try:
        return read_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None

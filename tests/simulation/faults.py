"""Faults that this project once had, by name: none is put back yet."""

FAULTS: dict[str, object] = {}

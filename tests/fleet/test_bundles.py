"""How much a bundle may hold, just below each bound and just above it."""

from __future__ import annotations

import pytest

from hooklatch.fleet.manifests import MAX_BUNDLE, Bundle, FleetError, encode_bundle, validate_bundle


def test_a_bundle_has_so_many_files() -> None:
    files = {f"{number}.py": b"" for number in range(500)}

    validate_bundle(files)
    with pytest.raises(FleetError, match="501 files"):
        validate_bundle({**files, "one_more.py": b""})


def test_a_path_has_so_many_bytes() -> None:
    validate_bundle({"x" * 200: b""})
    for name in ("x" * 201, "é" * 101, ""):
        with pytest.raises(FleetError, match="cannot be in a bundle"):
            validate_bundle({name: b""})


def test_a_bundle_has_so_many_bytes() -> None:
    content = b"x" * (MAX_BUNDLE // 4 * 3 - 120)
    spare = MAX_BUNDLE - len(encode_bundle(Bundle({"n": content})))

    assert len(encode_bundle(Bundle({"n" * (spare + 1): content}))) == MAX_BUNDLE
    with pytest.raises(FleetError, match=f"has {MAX_BUNDLE + 1} bytes"):
        encode_bundle(Bundle({"n" * (spare + 2): content}))

"""A bundle: the files of a version, as one document named by its sha256.

The document is JSON, `{"files": {"guards.py": "<base64>", …}, "suspendable": false}`, compact and with sorted names, so
equal folders give equal bundles.  Writers and readers raise FleetError for what may not be in one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import msgspec

from hooklatch.fleet.manifests import FleetError, Manifest, decode_document

__all__ = ["MAX_BUNDLE", "Bundle", "encode_bundle", "is_bundle_name", "read_bundle"]

MAX_BUNDLE = 4 * 2**20  # bytes of the document
MAX_FILES = 500
MAX_NAME = 200  # bytes of a path in it
DECLARING = (".toml", ".py", ".json")  # files that declare hooks at the top, as in hooks.d; below, all kinds may be


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of a version by their path.  `suspendable`: a host's user may suspend these hooks."""

    files: dict[str, bytes]
    suspendable: bool = False


def encode_bundle(bundle: Bundle) -> bytes:
    """Return the document of a bundle."""
    validate_bundle(bundle.files)
    sorted_files = dict(sorted(bundle.files.items()))
    data = msgspec.json.encode(Bundle(sorted_files, bundle.suspendable))
    if len(data) > MAX_BUNDLE:
        raise FleetError(f"the bundle has {len(data)} bytes; the most is {MAX_BUNDLE}: leave out what no hook needs")
    return data


def read_bundle(data: bytes, manifest: Manifest) -> Bundle:
    """Read the bundle that a manifest names."""
    # The digest comes first: only signed bytes are parsed.
    digest = hashlib.sha256(data).hexdigest()
    if digest != manifest.bundle or len(data) != manifest.size:
        raise FleetError(
            f"the bundle of version {manifest.version} is cut off or another one: its sha256 is {digest},"
            f" and the manifest names {manifest.bundle}"
        )
    if len(data) > MAX_BUNDLE:
        raise FleetError(f"the bundle of version {manifest.version} has {len(data)} bytes; the most is {MAX_BUNDLE}")
    bundle = decode_document(data, Bundle, f"the bundle of version {manifest.version}")
    validate_bundle(bundle.files)
    return bundle


def validate_bundle(files: Mapping[str, bytes]) -> None:
    if len(files) > MAX_FILES:
        raise FleetError(f"the bundle has {len(files)} files; the most is {MAX_FILES}")
    for name in files:
        if not is_bundle_name(name):
            raise FleetError(
                f"{name!r} cannot be in a bundle: a path has no '..', no hidden part and at most {MAX_NAME} bytes"
            )
    for name in files:
        folder = os.path.dirname(name)
        while folder:
            if folder in files:
                raise FleetError(f"{folder!r} is both a file and a folder of the bundle")
            folder = os.path.dirname(folder)


def is_bundle_name(name: str) -> bool:
    """Return whether a path may be in a bundle: relative, plain, without hidden parts or control characters."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return False
    parts = name.split("/")
    return (
        0 < size <= MAX_NAME
        and name.isprintable()
        and all(part and part[0] != "." for part in parts)
        and "\\" not in name
    )

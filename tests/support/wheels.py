"""Wheels that a test writes itself, and an index of nothing else, so that installers need no network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(
    folder: Path, name: str, code: str, *, version: str = "1.0", files: dict[str, str] | None = None
) -> None:
    """Write a wheel with one module of this code, and whatever other `files`."""
    about = f"{name}-{version}.dist-info"
    held = {
        f"{name}.py": code,
        **(files or {}),
        f"{about}/METADATA": METADATA.format(name=name, version=version),
        f"{about}/WHEEL": WHEEL,
    }
    record = "".join(f"{path},sha256={digest(text)},{len(text.encode())}\n" for path, text in held.items())
    held[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in held.items():
            archive.writestr(path, text)


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def only_from(folder: Path) -> dict[str, str]:
    """Return the variables with which pip and uv take packages from this folder alone."""
    return {
        "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_NO_CACHE_DIR": "1",
        "UV_NO_CONFIG": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(folder), "UV_OFFLINE": "1", "UV_NO_CACHE": "1",
    }  # fmt: skip

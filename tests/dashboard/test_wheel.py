"""What the dashboard's pages are made of is in the wheel, and README without links that PyPI could not follow.

Slow: it builds one, in a copy of the tree.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hooklatch.dashboard.rendering import FOLDER
from support.repository import ROOT


@pytest.mark.slow
def test_a_built_wheel_has_every_template_and_asset(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("supervisor", "workers", "packaging"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))

    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip

    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assets = [path for part in ("templates", "static") for path in (FOLDER / part).iterdir()]
    assert len(assets) >= 20
    assert {f"hooklatch/dashboard/{path.parent.name}/{path.name}" for path in assets} <= names
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert "Description-Content-Type: text/markdown" in text
    assert "# hooklatch" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == [], "PyPI has no files that such a link could lead to"

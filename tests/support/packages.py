"""Installed packages that bring plugins, as a package manager leaves them: modules, and metadata beside them."""

from __future__ import annotations

from pathlib import Path

GUARDS = """
from hooklatch_worker import deny, hook

@hook("pre_tool_use", match="Bash")
def no_bash(event):
    return deny("by " + __name__)

@hook("pre_tool_use", id="audit", priority=500)
def audited(event):
    return None
"""


def install(folder: Path, plugin: str, module: str, code: str = GUARDS, *, value: str | None = None) -> Path:
    """Put a package with one plugin into a folder of packages; give its module."""
    (folder / f"{module}.py").write_text(code)
    write_metadata(folder, module, plugin, value or module)
    return folder / f"{module}.py"


def write_metadata(folder: Path, package: str, plugin: str, value: str) -> None:
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[hooklatch.plugins]\n{plugin} = {value}\n")


def uninstall(folder: Path, module: str) -> None:
    (folder / f"{module}.py").unlink()
    metadata = folder / f"{module}-1.0.dist-info"
    for path in metadata.iterdir():
        path.unlink()
    metadata.rmdir()

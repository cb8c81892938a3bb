"""The forwarder as a static program in a wheel: hatchling asks for it where HOOKLATCH_WHEEL names a machine.

    HOOKLATCH_WHEEL=aarch64 python -m hatchling build -t wheel

Without that variable the wheel is one for all machines, and `install` compiles the program where a compiler is.  The
compiler is that of the package `ziglang`, whose C library (musl) a static program has whole: it runs on every Linux.
As a script it writes the program alone: `python native_entry.py MACHINE FILE`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "supervisor"))

from hooklatch.entry.header import FLAGS, SOURCE, make_header  # noqa: E402 - from this tree, which is not installed

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # a script needs none
    BuildHookInterface = object  # type: ignore[assignment,misc]

__all__ = ["MACHINES", "NativeEntry", "compile_for", "make_tag"]

MACHINE = "HOOKLATCH_WHEEL"
MACHINES = ("x86_64", "aarch64")


class NativeEntry(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the program beside its source, and names the machine in the wheel's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        machine = os.environ.get(MACHINE)
        if not machine or version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        program = Path(self.folder.name, "entry")
        compile_for(machine, program)
        build_data["force_include"][str(program)] = "hooklatch/entry/entry"
        build_data["pure_python"] = False
        build_data["tag"] = make_tag(machine)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


def make_tag(machine: str) -> str:
    """Return the tag of a wheel with a static program, which needs none of the C libraries that a tag can name."""
    return f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"


def compile_for(machine: str, program: Path) -> None:
    """Compile the program.

    Raises:
        ValueError: there is no wheel for such a machine.
        CalledProcessError: the compiler failed, and has said why.
    """
    if machine not in MACHINES:
        raise ValueError(f"{MACHINE}={machine}: there are {', '.join(MACHINES)}")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "refusals.h").write_text(make_header())
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl"]
        options = [*FLAGS, "-Werror", "-static", "-s", "-I", folder, "-o", str(program)]
        subprocess.run([*compiler, *options, str(SOURCE)], check=True)


if __name__ == "__main__":
    compile_for(sys.argv[1], Path(sys.argv[2]))

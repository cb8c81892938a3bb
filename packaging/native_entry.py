"""The forwarder as a program in a wheel: hatchling asks for it where HOOKLATCH_WHEEL names a machine.

    HOOKLATCH_WHEEL=aarch64 python -m hatchling build -t wheel

Without that variable the wheel is one for all machines, and `install` compiles the program where a compiler is.  The
compiler is that of the package `ziglang`, whose C library (musl) a static program has whole: it runs on every Linux.
On macOS every program needs the system's own library, which is the same for all versions from the named one on.
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

__all__ = ["MACHINES", "NativeEntry", "compile_for"]

MACHINE = "HOOKLATCH_WHEEL"
MACHINES = {  # what the compiler makes, and the tag of the wheel that has it
    "x86_64": ("x86_64-linux-musl", "manylinux_2_17_x86_64.musllinux_1_1_x86_64"),
    "aarch64": ("aarch64-linux-musl", "manylinux_2_17_aarch64.musllinux_1_1_aarch64"),
    "x86_64-macos": ("x86_64-macos.11.0", "macosx_11_0_x86_64"),
    "aarch64-macos": ("aarch64-macos.11.0", "macosx_11_0_arm64"),
}  # a static program needs none of the C libraries that a tag of Linux can name


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
        build_data["tag"] = f"py3-none-{MACHINES[machine][1]}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


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
        target = MACHINES[machine][0]
        compiler = [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-target",
            target,
            *(["-static"] if "linux" in target else []),
        ]
        options = [*FLAGS, "-Werror", "-s", "-I", folder, "-o", str(program)]
        subprocess.run([*compiler, *options, str(SOURCE)], check=True)


if __name__ == "__main__":
    compile_for(sys.argv[1], Path(sys.argv[2]))

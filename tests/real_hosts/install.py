"""Downloads the real programs, each at its pinned version, into a folder that git ignores: `make hosts`.

Usage: python tests/real_hosts/install.py [NAME...].  What is there is left alone; exits with 1 if one cannot be had.
Packages of npm run nothing as they are installed (`--ignore-scripts`): the programs are in them as they come.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from real_hosts.programs import FOLDER, PROGRAMS, Program, node_folder, npm_command

INSTEAD = "npm:ws@8.19.0"
UNPACK = """
const fs = require("fs"), zlib = require("zlib"), path = process.argv[1];
fs.writeFileSync(path, zlib.brotliDecompressSync(fs.readFileSync(path + ".br")), {mode: 0o755});
"""


def main(names: list[str]) -> int:
    """Install what is missing of these, or of all; return the exit code."""
    if unknown := [name for name in names if name not in PROGRAMS]:
        print(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
        return 64
    wanted = [PROGRAMS[name] for name in names or PROGRAMS]
    failed = [program.title for number, program in enumerate(wanted, 1) if not install(program, number, len(wanted))]
    if failed:
        print(f"could not be installed: {', '.join(failed)}; their tests are skipped")
    return 1 if failed else 0


def install(program: Program, number: int, count: int) -> bool:
    """Install one program; return whether it is there.  A download that is cut off leaves nothing."""
    print(f"[{number}/{count}] {program.title} {program.version} ... ", end="", flush=True)
    if program.path.is_file():
        print("is there")
        return True
    begun = time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    partial = FOLDER / f"{program.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    if program.without:  # another package, which is there, has to stand in their place
        partial.mkdir()
        (partial / "package.json").write_text(json.dumps({"overrides": dict.fromkeys(program.without, INSTEAD)}))
    done = subprocess.run(
        _command(program, partial), capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{node_folder()}:{os.environ['PATH']}"},
    )  # fmt: skip
    if done.returncode == 0 and program.is_packed:
        done = subprocess.run(
            [str(node_folder() / "node"), "-e", UNPACK, str(partial / program.starts)], capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    if done.returncode or not (partial / program.starts).is_file():
        print(f"failed: {(done.stderr or done.stdout).strip() or f'it has no {program.starts}'}")
        shutil.rmtree(partial, ignore_errors=True)
        return False
    partial.rename(program.folder)
    print(f"{time.monotonic() - begun:.0f} s")
    return True


def _command(program: Program, folder: Path) -> list[str]:
    if program.wheel:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        return [*pip, "--only-binary", ":all:", "--target", str(folder), f"{program.wheel}=={program.version}"]
    quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    return [*npm_command(), "install", *quiet, "--prefix", str(folder), f"{program.npm}@{program.version}"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

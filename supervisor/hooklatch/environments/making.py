"""The builder of an environment: with uv where it is installed, else with venv and pip.

Only wheels are installed, so no code of a package runs here: it runs in confined workers alone.  A directory without a
`ready` file is the rest of an unfinished build, and is removed first.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec

import msgspec

from hooklatch.directories import replace_file
from hooklatch.environments.interpreter import SPARES, ProgramOutput, inspect_in_thread, read_last_line, run_program
from hooklatch.environments.store import READY
from hooklatch.processes.environment_slot import EnvironmentFaultError, Requirements
from hooklatch.threads import in_thread
from hooklatch_worker.sandbox.children import INSTALLER, filter_absolute_path, isolated_command
from hooklatch_worker.sandbox.safety import UnsafeFileError, check_file

__all__ = ["EnvironmentRecipe", "find_python", "find_uv", "make_environment"]

STEP_TIMEOUT = 900.0  # seconds for one program; big wheels over a slow line
FIND_TIMEOUT = 20.0  # seconds for finding out which Pythons there are; loading waits for it
SHOWN_LINES = 8  # lines of an installer's output in a diagnostic
NAMES_OF_PYTHONS = [f"python3.{minor}" for minor in range(16, 10, -1)]  # the newest first
PIP = """import glob, os, sys
from importlib.machinery import PathFinder
root = {root!r}
if root:
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, [root]) if name == "pip" else None
    sys.meta_path.insert(0, Finder)
else:
    import ensurepip
    found = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
    sys.path[:0] = found or glob.glob("/usr/share/python-wheels/pip-*.whl")
import runpy
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


class EnvironmentRecipe(msgspec.Struct, frozen=True):
    """The parts of an environment: an interpreter, its version and ABI, and packages."""

    requirements: Requirements
    python: str
    version: str
    fits: bool  # the daemon's own compiled packages can be loaded there

    @property
    def packages(self) -> list[str]:
        """Return the requirements to install.

        The packages that hooks of every environment need are added, unless the daemon's own fit.  A lock is complete:
        nothing is added to it.
        """
        if self.requirements.locked:
            return self.requirements.locked.splitlines()
        ours = [] if self.fits else [f"{name.replace('_', '-')}=={importlib.metadata.version(name)}" for name in SPARES]
        return [*self.requirements.dependencies, *ours]

    @property
    def key(self) -> str:
        return self.requirements.digest(os.path.realpath(self.python), self.version, *self.packages)


def find_uv() -> str | None:
    """Return the path of uv, if it is on the PATH or beside this interpreter, and no other user can write to it."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    on_path = shutil.which("uv", path=filter_absolute_path(os.environ.get("PATH", os.defpath)))
    for path in (on_path, beside, os.path.expanduser("~/.local/bin/uv")):
        if path is not None and os.access(path, os.X_OK):
            try:
                check_file(path)
            except (UnsafeFileError, OSError):
                continue
            return os.path.abspath(path)
    return None


async def find_python(requirements: Requirements) -> tuple[str, str, bool]:
    """Return the interpreter to make an environment of: the daemon's own, if the requirements admit it.

    The result is its path, its version, and whether it has the same ABI.  Nothing is downloaded.
    """
    own = ".".join(map(str, sys.version_info[:3]))
    if requirements.admits(own):
        return sys.executable, own, True
    uv, candidates = await inspect_in_thread("PATH", lambda _: (find_uv(), list(map(shutil.which, NAMES_OF_PYTHONS))))
    if uv is not None:
        command = [uv, "python", "find", "--no-python-downloads", "--no-project", requirements.python]
        command_exit = await run_program(command, INSTALLER.of(os.environ), folder="/", timeout=FIND_TIMEOUT)
        candidates.insert(0, command_exit.last_lines(1) if command_exit.code == 0 else None)
    for path in dict.fromkeys(candidates):
        version = await read_maker_version(path) if path and os.path.isabs(path) else None
        if path and version and requirements.admits(version):
            return path, version, False
    raise EnvironmentFaultError(
        f"no Python here is {requirements.python} (the daemon's own is {own}); install one, so that python3.N is on the"
        " daemon's PATH, or change requires-python"
    )


async def read_maker_version(python: str) -> str | None:
    try:
        check_file(python)
        code = "import sys; print('%d.%d.%d' % sys.version_info[:3], end='')"
        return (await read_last_line(python, code)).decode("utf-8", "replace")
    except (UnsafeFileError, EnvironmentFaultError, OSError):
        return None


async def make_environment(recipe: EnvironmentRecipe, folder: str, output: ProgramOutput) -> str:
    """Make an environment in a directory that the caller has locked; return the name of the installer."""
    list_path = await in_thread(prepare_folder, folder, recipe)
    variables, python = INSTALLER.of(os.environ), os.path.join(folder, "bin", "python")
    uv = await inspect_in_thread("PATH", lambda _: find_uv())
    if uv is not None:
        installer, base = "uv", [uv, "--no-progress", "--color", "never"]
        options = ["--no-project", "--no-python-downloads", "--allow-existing"]
        await run_step(
            [*base, "venv", *options, "--python", recipe.python, folder], variables, folder, output, "uv venv"
        )
        install = [
            *base, "pip", "install", "--python", python, "--only-binary", ":all:", "--link-mode", "copy",
            "-r", list_path,
        ]  # fmt: skip
    else:
        installer = "pip"
        await run_step(
            isolated_command(recipe.python, "-m", "venv", "--without-pip", folder), variables, folder, output, "venv"
        )
        spec = find_spec("pip")
        root = os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else ""
        install = [
            python, "-I", "-c", PIP.format(root=root), "install", "--no-input", "--disable-pip-version-check",
            "--progress-bar", "off", "--only-binary", ":all:", "-r", list_path,
        ]  # fmt: skip
    if recipe.requirements.locked:
        install.append("--require-hashes")
    if recipe.packages:
        await run_step(install, variables, folder, output, f"{installer} install")
    await in_thread(sign_environment, folder, recipe, installer)
    return installer


async def run_step(
    command: list[str], variables: Mapping[str, str], folder: str, output: ProgramOutput, name: str
) -> None:
    try:
        command_exit = await run_program(command, variables, folder=folder, timeout=STEP_TIMEOUT, output=output)
    except OSError as error:
        raise EnvironmentFaultError(f"{name} cannot be run: {error.strerror}") from None
    if command_exit.code != 0:
        took_long = command_exit.code is None
        ending = f"took over {STEP_TIMEOUT:.0f} s" if took_long else f"failed with code {command_exit.code}"
        last_output = command_exit.last_lines(SHOWN_LINES).replace("\n", " | ")
        raise EnvironmentFaultError(f"{name} {ending}: {last_output}{find_hint(last_output)}")


def find_hint(text: str) -> str:
    if "ensurepip" in text or "No module named pip" in text:
        return " (install uv, or your system's python3-venv)"
    if "binary" in text.lower() or "no-build" in text:
        return (
            " (only wheels are installed; for a package that has none, make an environment yourself, and name its"
            " interpreter: python = … in [[source]])"
        )
    return ""


def prepare_folder(folder: str, recipe: EnvironmentRecipe) -> str:
    """Make an empty directory that no other user can enter; return the path of its list of packages."""
    if os.path.lexists(folder):
        shutil.rmtree(folder)
    os.mkdir(folder, 0o700)
    list_path = os.path.join(folder, "requirements.txt")
    with open(list_path, "w", encoding="utf-8") as file:
        file.writelines(f"{package}\n" for package in recipe.packages)
    return list_path


def sign_environment(folder: str, recipe: EnvironmentRecipe, installer: str) -> None:
    # Written last: after a crash at any moment, `ready` stands only in a whole environment.
    facts = {"by": installer, "made_at": time.time(), **msgspec.structs.asdict(recipe)}
    replace_file(os.path.join(folder, READY), msgspec.json.encode(facts))

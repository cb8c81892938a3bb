"""A Debian package and a Homebrew formula, from a wheel and an sdist: `python system_packages.py WHEEL SDIST FOLDER`.

The Debian package has a venv below /usr/lib/hooklatch, with the wheel and with its dependencies as they are in the
environment that runs this, which is that of the tests.  It is for the Python and the machine of that environment.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["make_deb", "make_formula"]

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
CONTROL = """Package: hooklatch
Version: {version}
Architecture: {architecture}
Maintainer: The hooklatch authors
Installed-Size: {size}
Depends: {depends}
Section: devel
Priority: optional
Description: runs the hooks of agents in supervised workers, and fails closed
 A daemon that agents ask before each tool call. Guards decide it in warm worker
 processes. If a guard crashes, hangs or is missing, the answer is deny.
 .
 To begin: hooklatch setup
"""
SCRIPT = """#!/usr/lib/hooklatch/bin/python3 -I
import sys

from hooklatch.cli import main

sys.exit(main())
"""
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/hooklatch",
    "zsh": "usr/share/zsh/vendor-completions/_hooklatch",
    "fish": "usr/share/fish/vendor_completions.d/hooklatch.fish",
}
FORMULA = """class Hooklatch < Formula
  include Language::Python::Virtualenv

  desc "Runs the hooks of agents in supervised workers, and fails closed"
  homepage "https://pypi.org/project/hooklatch/"
  url "https://files.pythonhosted.org/packages/source/h/hooklatch/{sdist}"
  sha256 "{digest}"
  license "MIT"

  depends_on :linux
  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13", without_pip: false)
    system libexec/"bin/python", "-m", "pip", "install", "--no-input", buildpath
    bin.install_symlink libexec/"bin/hooklatch"
    man1.install "packaging/man/man1/hooklatch.1"
    generate_completions_from_executable(bin/"hooklatch", "completion")
  end

  service do
    run [opt_bin/"hooklatch", "serve"]
    keep_alive true
  end

  test do
    assert_match version.to_s, shell_output("#{{bin}}/hooklatch --version")
  end
end
"""


def make_formula(sdist: Path, folder: Path) -> Path:
    """Write the formula for an sdist, as PyPI has it once it is uploaded; return its path."""
    formula = folder / "hooklatch.rb"
    digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
    formula.write_text(FORMULA.format(sdist=sdist.name, digest=digest), encoding="utf-8")
    return formula


def make_deb(wheel: Path, folder: Path, *, python: str = f"/usr/bin/{PYTHON}") -> Path:
    """Build the package for an interpreter of the version of this one; return its path.

    Raises:
        CalledProcessError: dpkg-deb refused it, or the wheel is of another version than its environment's.
    """
    version = wheel.name.split("-")[1]
    architecture = ask("dpkg", "--print-architecture").strip()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)
        site = root / "usr/lib/hooklatch/lib" / PYTHON / "site-packages"
        unpack_wheel(wheel, site, root / "usr")
        for name in sorted({*list_dependencies("hooklatch")}):
            copy_distribution(name, site)
        write_venv(root / "usr/lib/hooklatch", python)
        write_around(root, site, version)
        size = sum(path.lstat().st_size for path in root.rglob("*")) // 1024
        depends = f"{PYTHON}, libc6, libstdc++6" if python.startswith("/usr/bin/") else "libc6, libstdc++6"
        control = CONTROL.format(version=version, architecture=architecture, size=size, depends=depends)
        write(root / "DEBIAN/control", control)
        package = folder / f"hooklatch_{version}_{architecture}.deb"
        ask("dpkg-deb", "--build", "--root-owner-group", str(root), str(package))
    return package


def unpack_wheel(wheel: Path, site: Path, share: Path) -> None:
    """Unpack a wheel into a folder of packages; what it has below `data` goes beside, as an installer does it."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (data,) = site.glob("hooklatch-*.data")
    shutil.copytree(data / "data", share, dirs_exist_ok=True)
    shutil.rmtree(data)
    for program in site.glob("hooklatch/entry/entry"):
        program.chmod(0o755)


def list_dependencies(name: str) -> Iterator[str]:
    """Yield the names of the distributions that one needs here, without its extras, and those that they need."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name
            yield from list_dependencies(requirement.name)


def copy_distribution(name: str, site: Path) -> None:
    """Copy the files of a distribution that are below its folder of packages: no scripts, and no bytecode."""
    found = distribution(name)
    for file in found.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(found.locate_file(file)), target)


def write_venv(folder: Path, python: str) -> None:
    write(folder / "pyvenv.cfg", f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n")
    (folder / "bin").mkdir()
    (folder / "bin/python3").symlink_to(python)
    write(folder / "bin/hooklatch", SCRIPT, mode=0o755)


def write_around(root: Path, site: Path, version: str) -> None:
    """Write what a system has beside the program: its link, units, manual, completions, schema and licence."""
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/hooklatch").symlink_to("../lib/hooklatch/bin/hooklatch")
    for unit in sorted((site / "hooklatch/cli/daemon/units").glob("*/*")):
        text = re.sub(r"(?<=^ExecStart=)\S+/hooklatch", "/usr/bin/hooklatch", unit.read_text(), flags=re.MULTILINE)
        write(root / "usr/lib/systemd" / unit.parent.name / unit.name, text)
    for page in (root / "usr/share/man").rglob("*.1"):
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    program = [sys.executable, "-m", "hooklatch"]
    for shell, path in COMPLETIONS.items():
        write(root / path, ask(*program, "completion", shell))
    write(root / "usr/share/hooklatch/hooks.schema.json", ask(*program, "schema", "hooks.toml"))
    (licence,) = site.glob(f"hooklatch-{version}.dist-info/licenses/LICENSE")
    write(root / "usr/share/doc/hooklatch/copyright", licence.read_text())


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def ask(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    made = [make_deb(Path(sys.argv[1]), Path(sys.argv[3])), make_formula(Path(sys.argv[2]), Path(sys.argv[3]))]
    sys.stdout.write(" ".join(map(str, made)) + "\n")

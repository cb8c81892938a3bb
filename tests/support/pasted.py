"""What people paste from a page: blocks in their order, into one shell, with a home that nobody has used."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NETCAT", "blocks_of", "new_home", "paste", "save"]

PATIENCE = 150.0  # seconds for all commands of a page; only a failing test waits so long
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NETCAT = """#!{python}
import socket, sys
with socket.socket(socket.AF_UNIX) as stream:
    stream.connect(sys.argv[2])
    stream.sendall(sys.stdin.buffer.read())
    stream.shutdown(socket.SHUT_WR)
    sys.stdout.buffer.write(stream.makefile("rb").read())
"""


def blocks_of(page: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block, those of lists too."""
    return [(language, textwrap.dedent(text)) for _, language, text in BLOCK.findall(page)]


@contextmanager
def new_home() -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Make a home and an environment in which `hooklatch` is this one; a daemon that was left there is stopped."""
    with tempfile.TemporaryDirectory(prefix="hl-") as name:  # not tmp_path: a socket's path may have 107 bytes
        home = Path(name)
        (home / "run").mkdir(mode=0o700)
        path = f"{programs(home / 'bin')}:{os.environ['PATH']}"
        environment = {"HOME": name, "PATH": path, "XDG_RUNTIME_DIR": f"{name}/run"}
        try:
            yield home, environment
        finally:
            subprocess.run(["hooklatch", "stop"], capture_output=True, timeout=PATIENCE, check=False, env=environment)


def programs(folder: Path) -> Path:
    folder.mkdir()
    command = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hooklatch "$@"\n'
    scripts = {"hooklatch": command, **({} if shutil.which("nc") else {"nc": NETCAT.format(python=sys.executable)})}
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def save(text: str, path: Path) -> str:
    """Return what one types to put a text at the end of a file."""
    return f"mkdir -p {path.parent}\ncat >> {path} <<'END'\n{text}END"


def paste(texts: Iterable[str], home: Path, environment: Mapping[str, str]) -> tuple[list[tuple[str, int]], str]:
    """Give one shell all texts; return what each printed with its exit code, and all that went wrong, for a message."""
    script = "".join(f'{text}\necho "== $?"\n' for text in texts)
    done = subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=home, env=environment
    )
    told = re.findall(r"(.*?)== (\d+)\n", done.stdout, re.DOTALL)
    return [(text, int(code)) for text, code in told], done.stdout + done.stderr

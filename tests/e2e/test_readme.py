"""README as somebody pastes it: its blocks in their order, into one shell, with a home that nobody has used.

Slow: it runs a daemon and a dozen commands as a person would.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repository import ROOT

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
# `make demo` has a test of its own, and what `pip install .` brings is what the tests run on.
DONE = ("make demo", "pip install .")
NETCAT = """#!{python}
import socket, sys
with socket.socket(socket.AF_UNIX) as stream:
    stream.connect(sys.argv[2])
    stream.sendall(sys.stdin.buffer.read())
    stream.shutdown(socket.SHUT_WR)
    sys.stdout.buffer.write(stream.makefile("rb").read())
"""
TRY_AGAIN = """hooklatch reload
hooklatch fire pre_tool_use --payload - <<'JSON'
{"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
JSON"""


def pasted(home: Path) -> Iterator[str]:
    """Yield what is typed: blocks for a shell as they are, others as the files that the text says they are."""
    for language, text in BLOCKS:
        match language:
            case "sh":
                yield "\n".join(line for line in text.splitlines() if not line.startswith(DONE))
            case "python" if "@hook" in text:
                yield save(text, home / ".config/hooklatch/hooks.d/mine.py")
            case "python":
                yield save(text, home / "agent.py") + f"\n{shlex.quote(sys.executable)} agent.py && echo the agent may"
            case "toml":
                yield save(text, home / ".config/hooklatch/hooks.toml") + "\n" + TRY_AGAIN
    yield "hooklatch stop"
    yield "hooklatch status"


def save(text: str, path: Path) -> str:
    return f"mkdir -p {path.parent}\ncat >> {path} <<'END'\n{text}END"


def programs(folder: Path) -> Path:
    folder.mkdir()
    command = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hooklatch "$@"\n'
    scripts = {"hooklatch": command, **({} if shutil.which("nc") else {"nc": NETCAT.format(python=sys.executable)})}
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hl-") as folder:  # not tmp_path: a socket's path may have 107 bytes
        yield Path(folder)


def test_the_blocks_of_readme_do_what_it_says_one_after_another(home: Path) -> None:
    (home / "run").mkdir(mode=0o700)
    environment = {
        "HOME": str(home), "PATH": f"{programs(home / 'bin')}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": f"{home}/run",
    }  # fmt: skip
    script = "".join(f'{text}\necho "== $?"\n' for text in pasted(home))
    try:
        done = subprocess.run(
            ["bash"], input=script, capture_output=True, text=True, timeout=50, check=False, cwd=home, env=environment
        )
    finally:
        subprocess.run(["hooklatch", "stop"], capture_output=True, timeout=20, check=False, env=environment)

    told = re.findall(r"(.*?)== (\d+)\n", done.stdout, re.DOTALL)
    assert [int(code) for _, code in told] == [0, 2, 0, 2, 0, 0, 0, 69], done.stdout + done.stderr
    _, start, _, removal, agent, bare, stop, status = (text for text, _ in told)
    assert re.search(r"^hooklatch is ready: .*^verdict  deny$.*--force-with-lease", start, re.DOTALL | re.MULTILINE)
    assert "name the files to remove" in removal
    assert agent == "the agent may\n"
    assert '"verdict":"pass"' in bare
    assert stop.startswith("stopped (pid ")
    assert status.startswith("health      stopped\n")

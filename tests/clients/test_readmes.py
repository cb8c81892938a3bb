"""The first lines that each client's README shows, run as they stand by a real daemon, and with what it refuses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from clients.conftest import RealDaemon
from clients.programs import CARGO, CLIENTS, command_of
from support.survivors import nobody_survives

pytestmark = pytest.mark.slow  # compilers, and a daemon

REASON = "name the files to remove"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    with nobody_survives():
        daemon = RealDaemon(tmp_path_factory.mktemp("daemon"))
        yield daemon
        daemon.end()


def shown(language: str, fence: str) -> str:
    return (CLIENTS / language / "README.md").read_text().partition(f"```{fence}\n")[2].partition("```")[0]


def typescript(folder: Path, text: str) -> tuple[list[str], Path]:
    node = command_of("typescript")[0]
    stubs = """
const run = () => console.log("ran");
const refuse = (told) => console.log("refused", JSON.stringify(told));
"""
    # Below the package, which a module there imports by its name.
    return [node, "--input-type=module", "--eval", stubs + text], CLIENTS / "typescript"


def elixir(folder: Path, text: str) -> tuple[list[str], Path]:
    command = command_of("elixir")
    stubs = 'run = fn -> IO.puts("ran") end\nrefuse = fn reason -> IO.puts("refused #{reason}") end\n'
    (folder / "shown.exs").write_text(stubs + text.replace("run()", "run.()").replace("refuse(", "refuse.("))
    return [*command[:-1], str(folder / "shown.exs")], folder


def rust(folder: Path, text: str) -> tuple[list[str], Path]:
    command_of("rust")
    uses, _, rest = text.partition("\n\n")
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "shown"\nversion = "0.1.0"\nedition = "2021"\n\n'
        f'[dependencies]\nhooklatch = {{ path = "{CLIENTS / "rust"}" }}\n'
    )
    stubs = """
fn run() {
    println!("ran")
}

fn refuse(reason: String) {
    println!("refused {reason}")
}
"""
    whole = f"{uses}\n{stubs}\nfn main() -> Result<(), hooklatch::Error> {{\n{rest}\n    Ok(())\n}}\n"
    (folder / "src/main.rs").write_text(whole)
    return ["cargo", "run", "--quiet", "--offline"], folder


@pytest.mark.parametrize(
    ("language", "fence", "made"),
    [("typescript", "js", typescript), ("elixir", "elixir", elixir), ("rust", "rust", rust)],
    ids=["typescript", "elixir", "rust"],
)
def test_what_a_readme_shows_runs(
    running: RealDaemon,
    tmp_path: Path,
    language: str,
    fence: str,
    made: Callable[[Path, str], tuple[list[str], Path]],
) -> None:
    text = shown(language, fence)
    dangerous = text.replace('"Bash"', '"Shell"').replace('"ls"', '"rm -rf /"')
    assert dangerous.count("rm -rf") >= 1

    said: list[str] = []
    for number, one in enumerate((text, dangerous)):
        folder = tmp_path / str(number)
        folder.mkdir()
        command, cwd = made(folder, one)
        environ = {**os.environ, **CARGO, "HOOKLATCH_RUNTIME_DIR": str(running.folder / "run")}
        done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())

    assert said[0] == "ran"
    assert said[1].startswith("refused")
    assert REASON in said[1]

"""Every example in README and docs is run, or read by the code that would read it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklatch.core.protocol import ErrorCode, read_message
from hooklatch.service.config.configuration import read_config
from support.daemons import RpcFailure, running_daemon
from support.repository import ROOT

PAGES = sorted(
    [*(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")), *(ROOT / "docs").rglob("*.md")]
)
FIRED = "cookbook.md:"  # tests/docs fires them, too
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text())):
            if found == language:
                yield f"{page.name}:{number}", text


def cases(language: str) -> list[object]:
    return [pytest.param(text, id=name) for name, text in blocks(language)]


@pytest.mark.parametrize("text", [one for one in cases("python") if not str(one.id).startswith(FIRED)])  # type: ignore[attr-defined]
async def test_python_examples_load_as_hooks_or_run(text: str, tmp_path: Path) -> None:
    if "@hook" not in text:
        compile(text, "example", "exec")
        return
    config = '[[source]]\npath = "example.py"\n'

    files = {"hooks.toml": config, "example.py": text, "rules.json": '{"never": []}'}  # that an example names
    async with running_daemon(tmp_path, files) as daemon:
        diagnostics = daemon.parts.reloader.active.diagnostics
        hooks = daemon.parts.registries.view.hooks

    assert diagnostics == []
    assert hooks


@pytest.mark.parametrize("text", cases("toml"))
def test_toml_examples_are_good_configuration(text: str) -> None:
    read_config("/example/hooks.toml", text.encode())


@pytest.mark.parametrize("text", cases("json"))
def test_json_examples_are_messages(text: str) -> None:
    is_one_document = text.splitlines()[0] == "{"  # otherwise each line is one
    for line in [text] if is_one_document else text.splitlines():
        assert json.loads(line) is not None
        if '"jsonrpc"' in line:
            read_message(line.encode())


def test_the_guard_of_the_readme_refuses_what_it_says(tmp_path: Path) -> None:
    """Slow: it starts a daemon and two commands as a person would."""
    text = next(text for name, text in blocks("python") if name.startswith("README"))
    (tmp_path / "guards.py").write_text(text)

    answer = subprocess.run(
        [sys.executable, "-c", "import guards, hooklatch_worker.author.events as e;"
         "event = e.build_event('pre_tool_use', {'tool_name': 'Bash', 'tool_input': {'command': 'git push --force'}},"
         " {}, None, None, False);"
         "print(guards.no_force_push(event).verdict)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert answer.stdout.strip() == "deny"


def test_what_shows_a_promise_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in PAGES:
        text = page.read_text()
        for path in re.findall(r"\b(?:tests|bench)/[\w/.-]*\w", text):
            assert (ROOT / path).exists() or path.startswith("bench/results"), f"{page.name} names {path}"
        for target in re.findall(r"`make ([\w-]+)", text):
            assert target in targets, f"{page.name} names make {target}"


def test_the_table_of_error_codes_is_complete() -> None:
    text = (ROOT / "docs" / "reference" / "protocol.md").read_text()

    rows = dict(re.findall(r"^\| (-\d+) \| (\w+) \|", text, re.MULTILINE))

    assert rows == {str(int(code)): code.label for code in ErrorCode}


async def test_the_table_of_methods_is_complete(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "protocol.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| (?:both|agent|admin) \|", text, re.MULTILINE)

    async with running_daemon(tmp_path) as daemon, daemon.session() as client:
        daemon.parts.fleet.use()  # a product's methods are known once it is loaded
        with pytest.raises(RpcFailure, match="there are") as refusal:
            await client.call("nothing")
        of_links = daemon.parts.methods.tables["link"].keys() - daemon.parts.methods.tables["admin"].keys()

    assert set(re.findall(r"[\w.]+", ", ".join(rows))) == set(
        re.findall(r"[\w.]+", refusal.value.message.partition("there are ")[2])
    )
    assert set(re.findall(r"^\| `(\w+)` \| link \|", text, re.MULTILINE)) == of_links


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


async def test_the_example_hooks_load(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "hooks", tmp_path, dirs_exist_ok=True)
    for path in tmp_path.iterdir():  # noqa: ASYNC240  (a test's own folder)
        path.chmod(0o600)

    async with running_daemon(tmp_path) as daemon:
        diagnostics = daemon.parts.reloader.active.diagnostics
        async with daemon.session() as client:
            decision = await client.fire_tool("Bash", command="rm -rf build")

    assert diagnostics == []
    assert decision["verdict"] == "deny"


@pytest.mark.slow
def test_the_demo_shows_the_deny_the_recovery_and_the_reload() -> None:
    """Slow: it starts a daemon and some twenty commands."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")], capture_output=True, text=True, timeout=55, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for expected in ("SIGKILL", "DENY", "revision", "hooklatch is not running", "done:"):
        assert expected in done.stdout

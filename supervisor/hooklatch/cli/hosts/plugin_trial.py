"""A trial of OpenCode's plugin with one tool call, as OpenCode runs it: in Node, in Bun, or in OpenCode's own Bun."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping

from hooklatch.cli.hosts.jsonc import JsoncError, parse_jsonc
from hooklatch.cli.hosts.programs import run_host_program

__all__ = ["NoRuntimeError", "TrialError", "list_plugin_commands", "rewrite_commands", "try_plugin"]

LIMIT = 60.0  # seconds
COMMANDS = re.compile(r"^const COMMANDS = (\{.*?^\})", re.DOTALL | re.MULTILINE)
TRIAL = """\
const { pathToFileURL } = await import("node:url")
const module = await import(pathToFileURL(process.argv[2]).href)
const extra = JSON.parse(process.argv[3])
const place = process.cwd()
const hooks = await module.Hooklatch({ directory: place, worktree: place })
const input = { tool: "bash", sessionID: "hooklatch-doctor", callID: "hooklatch-doctor", ...extra }
let said
try {
  await hooks["tool.execute.before"](input, { args: { command: "true" } })
  said = { refused: false, text: "" }
} catch (error) {
  said = { refused: true, text: String(error?.message ?? error) }
}
process.stdout.write(JSON.stringify(said))
process.exit(0)
"""


class NoRuntimeError(Exception):
    """No program here runs JavaScript."""


class TrialError(Exception):
    """The plugin could not be loaded, or gave no result."""


def rewrite_commands(text: str, change: Callable[[tuple[str, ...]], Iterable[str]]) -> str:
    """Return the plugin with other command lines.

    Raises:
        TrialError: it has none that can be read.
    """
    commands = {event: list(change(words)) for event, words in list_plugin_commands(text).items()}
    return COMMANDS.sub(lambda _: f"const COMMANDS = {json.dumps(commands, indent=2)}", text, count=1)


def list_plugin_commands(text: str) -> dict[str, tuple[str, ...]]:
    """Return the plugin's command line for each event.

    Raises:
        TrialError: it has none that can be read.
    """
    match = COMMANDS.search(text)
    try:
        root = parse_jsonc(match[1]) if match is not None else None
    except JsoncError:
        root = None
    if match is None or root is None:
        raise TrialError("it does not have the commands that hooklatch writes")
    return {event: tuple(words) for event, words in root.value.items()}


def try_plugin(text: str, extra: Mapping[str, object], folder: str) -> tuple[bool, str]:
    """Return whether a tool call was refused, and the text of the refusal.

    Raises:
        NoRuntimeError: no program here runs JavaScript.
        TrialError: the plugin cannot be loaded.
        OSError, LateError: the program cannot be started, or does not end in time.
    """
    program, environ = make_runtime()
    plugin, trial = os.path.join(folder, "plugin.mjs"), os.path.join(folder, "trial.mjs")
    for path, content in ((plugin, text), (trial, TRIAL)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    done = run_host_program([program, trial, plugin, json.dumps(dict(extra))], limit=LIMIT, environ=environ)
    try:
        result = json.loads(done.stdout)
        return bool(result["refused"]), str(result["text"])
    except (ValueError, KeyError, TypeError):
        raise TrialError(f"{done.stderr.decode(errors='replace').strip()[:300] or 'it printed nothing'}") from None


def make_runtime() -> tuple[str, Mapping[str, str]]:
    for name in ("node", "bun"):
        if (path := shutil.which(name)) is not None:
            return path, os.environ
    if (path := shutil.which("opencode")) is not None:
        return path, {**os.environ, "BUN_BE_BUN": "1"}  # with it a program that Bun has packed is Bun itself
    raise NoRuntimeError("neither node nor bun is on the PATH")

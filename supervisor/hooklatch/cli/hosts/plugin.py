"""OpenCode's plugin, as text, and a trial of it with one tool call: in Node, in Bun, or in OpenCode's own Bun.

OpenCode has no commands for hooks: its plugins are JavaScript inside the program, and a tool call is refused by an
error that is thrown before it.  This plugin starts the forwarder, as every other host does, so that there is one
behaviour: anything but a plain "pass" in time is an error.  It has no dependencies and runs under Bun and under Node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from hooklatch.cli.hosts.editing import JsoncError, parse_jsonc
from hooklatch.cli.hosts.programs import run_host_program
from hooklatch.core.refusal_texts import DOCTOR, UNJUDGED, frame_for_model, frame_for_person

__all__ = [
    "is_plugin", "make_plugin", "NoRuntimeError", "TrialError", "list_plugin_commands", "rewrite_commands",
    "try_plugin",
]  # fmt: skip

MARK: Final = b"// hooklatch's plugin for OpenCode."


def is_plugin(data: bytes) -> bool:
    """Return whether a file is such a plugin."""
    return data.startswith(MARK)


def make_plugin(commands: Mapping[str, Sequence[str]], limit: float) -> str:
    """Return the plugin; `commands` has the forwarder's command for each event, `limit` is the seconds for a gate."""
    lines = ",\n".join(f"  {json.dumps(event)}: {json.dumps(list(words))}" for event, words in commands.items())
    text = TEXT.replace("@COMMANDS@", f"{{\n{lines},\n}}").replace("@LIMIT@", str(round(limit * 1000)))
    for mark, words in (("@UNJUDGED@", frame_for_model), ("@UNTOLD@", frame_for_person)):
        text = text.replace(mark, json.dumps(words(UNJUDGED, DOCTOR)))
    return text


TEXT: Final = """\
// hooklatch's plugin for OpenCode.  Written by `hooklatch install opencode`; `hooklatch uninstall opencode` removes it.
// It asks the hooklatch daemon before and after each tool call, and throws unless the answer is that it may go on.
import { spawn } from "node:child_process"

const COMMANDS = @COMMANDS@
const LIMIT = @LIMIT@ // milliseconds until a gate without an answer is refused
const MOST = 64 * 1024 * 1024 // bytes of an answer
const UNJUDGED = @UNJUDGED@ // what a model reads before and after why there is no answer
const UNTOLD = @UNTOLD@ // the same for a person
const SHOWN = 30000 // milliseconds that a person sees why a call was refused

const framed = (frame, why) => `${frame[0]}: ${why}${frame[1]}`
const refusal = (why) => Object.assign(new Error(framed(UNJUDGED, why)), { person: framed(UNTOLD, why) })

// Start the entry for an event, and return what it prints.  An error: it could not be started, failed, or was late.
function ask(event, document) {
  return new Promise((resolve, reject) => {
    const [program, ...words] = COMMANDS[event]
    const child = spawn(program, words, { stdio: ["pipe", "pipe", "pipe"] })
    const pieces = []
    let size = 0
    let said = ""
    const fail = (text) => {
      clearTimeout(timer)
      child.kill("SIGKILL")
      reject(text.startsWith("Not run: ") ? new Error(text) : refusal(text))
    }
    const timer = setTimeout(() => fail(`no answer within ${LIMIT / 1000} s`), LIMIT)
    child.on("error", (error) => fail(`the entry cannot be started: ${error.message}`))
    child.stdin.on("error", () => {}) // it ended without reading; its exit says why
    child.stdout.on("data", (piece) => {
      size += piece.length
      if (size > MOST) fail("the answer is too long")
      else pieces.push(piece)
    })
    child.stderr.on("data", (piece) => {
      if (said.length < 4096) said += piece
    })
    child.on("close", (code, signal) => {
      clearTimeout(timer)
      if (code === 0) resolve(Buffer.concat(pieces).toString("utf8"))
      else fail(said.trim() || `the entry ended with ${signal ?? `exit code ${code}`}`)
    })
    child.stdin.end(document)
  })
}

// Return a document with nothing in it that JSON cannot hold.
function written(event, document) {
  const text = JSON.stringify({ ...document, event })
  if (typeof text !== "string") throw refusal("the event cannot be written as JSON")
  return text
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

// Show the person a line.  A call that was refused looks like one that ran, and no refusal may fail with its display.
async function show(client, message) {
  try {
    await client?.tui?.showToast({ body: { title: "hooklatch", message, variant: "warning", duration: SHOWN } })
  } catch {
    return
  }
}

const spoken = new Map() // by session: the agent and the model of its last prompt
const unwritten = new Map() // by session: what was refused since then

// Write what was refused into the session, once nothing runs there: the person reads it, and the model does not.
async function leave(client, sessionID) {
  const [said, lines] = [spoken.get(sessionID), unwritten.get(sessionID)]
  unwritten.delete(sessionID)
  if (!said || !lines) return // without these two, OpenCode would take its own default for both
  const text = lines.map(([call, why]) => `Not run: ${call}\\n${why}`).join("\\n")
  try {
    const parts = [{ type: "text", text, ignored: true }]
    await client?.session?.prompt({ path: { id: sessionID }, body: { ...said, noReply: true, parts } })
  } catch {
    return
  }
}

async function gate(client, event, document, output) {
  try {
    await judge(event, document, output)
  } catch (error) {
    const { sessionID, tool, args = {} } = document
    if (error.person) {
      show(client, error.person)
      const subject = args.command ?? args.filePath ?? args.url
      const call = `${tool}${typeof subject === "string" ? ` ${subject}` : ""}`.replace(/[\\p{C}\\s]+/gu, " ")
      const line = [call.length > 200 ? `${call.slice(0, 199)}…` : call, error.person]
      unwritten.set(sessionID, [...(unwritten.get(sessionID) ?? []).slice(-19), line])
    }
    throw error
  }
}

async function judge(event, document, output) {
  const answer = parsed(await ask(event, written(event, document)))
  if (answer === null || typeof answer !== "object" || answer.verdict !== "pass") {
    if (!answer?.reason) throw refusal("the answer is not a pass")
    throw Object.assign(new Error(answer.reason), { person: answer.person })
  }
  if (answer.output !== undefined) return Object.assign(output, answer.output) // what the model reads of a result
  if (answer.args === undefined) return
  // OpenCode has handed this object out already, so it is changed and not replaced.
  for (const key of Object.keys(output.args)) delete output.args[key]
  Object.assign(output.args, answer.args)
}

// Nobody waits, and nothing can be refused.
async function tell(client, event, document) {
  if (!COMMANDS[event]) return
  try {
    const answer = parsed(await ask(event, written(event, document)))
    if (answer?.person) await show(client, answer.person)
  } catch {
    return
  }
}

export const Hooklatch = async ({ client, directory, worktree }) => {
  const place = { cwd: directory, directory, worktree }
  return {
    "tool.execute.before": async (input, output) => {
      await gate(client, "tool.execute.before", { ...place, ...input, args: output.args }, output)
    },
    "tool.execute.after": async (input, output) => {
      await gate(client, "tool.execute.after", { ...place, ...input, output }, output).catch((error) => {
        throw new Error(error.message.replace(/^Not run: /, "withheld by hooklatch: "))
      })
    },
    "chat.message": async (input, output) => {
      if (output.parts?.length && output.parts.every((part) => part.ignored)) return // a note, as `leave` writes it
      const { agent, model } = output.message ?? {}
      if (agent && model) spoken.set(input.sessionID, { agent, model })
      const prompt = (output.parts ?? []).map((part) => part.text ?? "").join("\\n")
      tell(client, "chat.message", { ...place, ...input, prompt })
    },
    event: async ({ event }) => {
      const about = event.properties ?? {}
      const sessionID = about.sessionID ?? about.info?.id
      if (event.type === "session.idle") leave(client, sessionID)
      tell(client, event.type, { ...place, sessionID, parentID: about.info?.parentID, properties: about })
    },
  }
}
"""


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

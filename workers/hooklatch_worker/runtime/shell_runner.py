"""A shell hook as a function: `run` is the target, the hook's definition is its config.

    exit code            gate                         elsewhere      with exit_codes = "advisory"
    0                    no opinion, or the JSON      the same       the same
    2                    deny                         a warning      deny; a warning elsewhere
    126, 127, a signal   crash                        crash          crash
    out of time          timeout                      timeout        timeout
    any other            crash                        a warning      a warning

Only `output = "json"` reads standard output.  An exit code of 2 refuses, with any output.  A gate's command that
ends with 0 and printed a refusal was perhaps written for that setting: it passes with a warning that says so.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Literal

import msgspec

from hooklatch_worker.author import verdicts
from hooklatch_worker.author.event import Event, find_call
from hooklatch_worker.author.failures import CallFailed
from hooklatch_worker.author.marker import MAX_TIMEOUT
from hooklatch_worker.author.verdicts import GarbageError, Verdict
from hooklatch_worker.runtime import shell_answers
from hooklatch_worker.runtime.shell_command import CommandResult, execute_command
from hooklatch_worker.runtime.shell_forms import UnsupportedFormatError, encode_form_payload
from hooklatch_worker.sandbox.children import SHELL_HOOK, filter_absolute_path

__all__ = ["CallFailed", "CommandResult", "ShellHook", "run", "run_command"]

MARGIN = 0.05  # seconds by which we are done before the daemon would kill the whole worker, a tenth where that is less
MAX_TEXT = 4096  # characters of a reason; all that was printed is in the outcome
REFUSED = 2
CANNOT_RUN = {126: "what it runs is not executable", 127: "what it runs was not found"}  # POSIX, sh(1), EXIT STATUS
# The programs that a repository's own settings could make git run, git-config(1).  Drivers and filters have names of
# their own, so they cannot be named here; a pager and an editor are for terminals, which a command does not have.
GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.sshCommand": "ssh",
    "protocol.ext.allow": "never",
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.x509.program": "gpgsm",
}
# A command runs in a folder that an agent can write: Python (3.11 and later) imports nothing from it, git runs nothing.
PROTECTION = {
    "PYTHONSAFEPATH": "1",
    "GIT_CONFIG_COUNT": str(len(GIT_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(GIT_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(GIT_SETTINGS.values())},
}


class ShellHook(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a command, as it comes in the config of the call.

    `allows` are the event's verdicts and outputs, `config` is the hook's own table, `folder` is that of the file that
    declares it.  With a `payload` of another system, the command was written for that system: it runs as there, without
    the protection of other commands from the session's folder.  Files that a command writes belong to the user, so it
    does not get the worker's narrow umask.
    """

    command: str | None = None
    argv: list[str] | None = None
    payload: Literal["canonical", "claude", "reasonix"] = "canonical"
    output: Literal["exit", "json"] = "exit"
    exit_codes: Literal["strict", "advisory"] = "strict"
    run_in: Literal["session", "file"] = "session"
    folder: str = "/"
    cwd: str | None = None
    env: dict[str, str] = {}
    timeout: float | None = None
    path: str | None = None
    hook_id: str = ""
    fails_closed: bool = True
    allows: frozenset[str] = frozenset()
    config: dict[str, Any] = {}
    umask: int = 0o022

    @property
    def arguments(self) -> list[str]:
        if self.command is not None:
            return ["/bin/sh", "-c", "--", self.command]
        program, *words = self.argv or [""]
        # A bare name is looked up on PATH; another relative one begins at the declaring file's folder, as with `run`.
        is_path = "/" in program and self.is_protected
        return [os.path.join(self.folder, program) if is_path else program, *words]

    @property
    def is_protected(self) -> bool:
        return self.payload == "canonical"


def run(event: Event) -> Verdict[Any] | None:
    """Run the command of `event.config` and return its verdict.

    Raises:
        CallFailed: it could not be started, died, was out of time, or ended without an answer.
        GarbageError: the JSON that it printed is not an answer.
    """
    hook, call = read_hook(event.config), find_call(event)
    result = run_command(hook, event, min(MAX_TIMEOUT if hook.timeout is None else hook.timeout, call.remaining))
    call.printed = result
    return judge_result(hook, event.event, result)


def read_hook(config: dict[str, Any]) -> ShellHook:
    try:
        hook = msgspec.convert(config, ShellHook)
    except msgspec.ValidationError as error:
        raise CallFailed("load", f"the definition of this shell hook cannot be used: {error}") from None
    has_command = bool(hook.command and hook.command.strip())
    has_arguments = bool(hook.argv and hook.argv[0])
    if has_command == has_arguments or (hook.command is not None and hook.argv is not None):
        raise CallFailed("load", "a shell hook needs either a command or an argv, and it must not be empty")
    return hook


def run_command(hook: ShellHook, event: Event, timeout: float) -> CommandResult:
    """Run the command for a little less than `timeout` seconds, so that there is time to report a timeout.

    Raises:
        CallFailed: it could not be started, or the event cannot be put into the form that it reads.
    """
    deadline = time.monotonic() + timeout - min(MARGIN, timeout / 10)
    if not timeout > 0:
        raise CallFailed("timeout", "no time was left to start the command")
    try:
        line = encode_form_payload(hook.payload, event)
    except (UnsupportedFormatError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CallFailed("protocol", f"the event could not be given to the command: {error}") from None
    cwd = find_run_folder(hook, event)
    env = make_run_environment(hook, event, cwd)
    return execute_command(hook.arguments, line, cwd=cwd, env=env, umask=hook.umask, deadline=deadline)


def find_run_folder(hook: ShellHook, event: Event) -> str:
    base = hook.folder if hook.run_in == "file" else event.cwd or "/"
    folder = os.path.join(base, hook.cwd or "")
    if not os.path.isabs(folder):
        raise CallFailed("crash", f"the command could not be started: {folder!r} is not an absolute path")
    return folder


def make_run_environment(hook: ShellHook, event: Event, cwd: str) -> dict[str, str]:
    env = SHELL_HOOK.of(os.environ)
    env["PATH"] = hook.path or os.environ.get("PATH") or os.defpath
    if hook.is_protected:
        env.update(PROTECTION)
    if hook.payload == "claude":
        env["CLAUDE_PROJECT_DIR"] = event.cwd or cwd
    env.update(hook.env)
    env["PATH"] = filter_absolute_path(env["PATH"]) or os.defpath
    # Last, because guards rely on them.
    env["HOOKLATCH_EVENT"] = event.event
    env["HOOKLATCH_SESSION_ID"] = event.session_id or ""
    env["HOOKLATCH_CWD"] = event.cwd or ""
    env["HOOKLATCH_HOOK_ID"] = hook.hook_id
    return env


def judge_result(hook: ShellHook, event: str, result: CommandResult) -> Verdict[Any] | None:
    """Return the verdict that the exit of a command means."""
    code = result.exit_code
    if code is None:
        raise CallFailed("timeout", f"the command gave no answer within {result.seconds:.2f} s and was stopped")
    message = format_command_message(result)
    death = describe_death(hook, code)
    if death:
        raise CallFailed("crash", f"the command failed: {death}" + (f": {message}" if message else ""))
    if code == 0:
        if hook.output == "json":
            return read_output(hook, event, result)
        if find_printed_refusal(hook, event, result) is not None:
            return verdicts.warn('it printed a refusal, which only output = "json" reads; set that, or exit with 2')
        return None
    if code == REFUSED:
        text = message or "refused with exit code 2 and without a reason"
        return verdicts.deny(text) if hook.fails_closed else verdicts.warn(text)
    text = f"the command ended with exit code {code} (2 refuses, 0 passes)" + (f": {message}" if message else "")
    if hook.fails_closed and hook.exit_codes == "strict":
        raise CallFailed("crash", text)
    printed = find_printed_refusal(hook, event, result) if hook.output == "json" else None
    return printed or verdicts.warn(text)


def describe_death(hook: ShellHook, code: int) -> str:
    """Return the cause of a command's death or failed start, "" for an exit code that it chose itself."""
    if code < 0:
        return f"killed by signal {signal_name(-code)}"
    if code in CANNOT_RUN:
        return f"exit code {code}, {CANNOT_RUN[code]}"
    # The shell's own code for the death of its command (sh(1)); without this line a killed guard would only warn.
    if hook.command is not None and code - 128 in signal.valid_signals():
        return f"exit code {code}, killed by signal {signal_name(code - 128)}"
    return ""


def signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def read_output(hook: ShellHook, event: str, result: CommandResult) -> Verdict[Any] | None:
    if result.is_stdout_truncated:
        raise GarbageError(f"the answer on standard output is longer than {len(result.stdout)} bytes")
    if hook.payload == "claude" and event in shell_answers.TEXT_IS_CONTEXT:
        context = shell_answers.read_text(result.stdout)
        if context is not None:
            return context
    return shell_answers.parse_command_output(
        result.stdout, event=event, fails_closed=hook.fails_closed, allows=hook.allows
    )


def find_printed_refusal(hook: ShellHook, event: str, result: CommandResult) -> Verdict[Any] | None:
    """Find the refusal that a command printed, for which its exit code does not speak.

    Claude Code accepts such an answer, so a guard made for it must not become weaker here.  No other answer counts.
    """
    if not hook.fails_closed:
        return None
    try:
        answer = read_output(hook, event, result)
    except shell_answers.AmbiguousError:
        raise  # it may be a refusal
    except GarbageError:
        return None
    return answer if answer is not None and answer.verdict in ("deny", "ask", "halt") else None


def format_command_message(result: CommandResult) -> str:
    """Return a command's own message: its standard error, or else its standard output."""
    for stream in (result.stderr, result.stdout):
        text = stream.decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "\ufffd").strip()
        if text:
            return clip_message(text)
    return ""


def clip_message(text: str) -> str:
    # A guard prints its reason first, a traceback has it last.
    half = MAX_TEXT // 2
    return text if len(text) <= MAX_TEXT else f"{text[:half]}\n…\n{text[-half:]}"

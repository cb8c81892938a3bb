"""The commands `asks`: the asks that wait for a person, and that person's answer.

The daemon judges whether an answer counts.  At a terminal `--follow` shows one ask after the other, and each line that
is typed is about the one that is shown last:

    a REASON   allow        d REASON   deny        (without a reason it is asked for)
    n          the next one                        q          end; what is open stays open
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import select
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.bell import AskBell, add_bell_option
from hooklatch.cli.terminal.look import paint_text, terminal_width
from hooklatch.cli.terminal.parser import Exit, Parser
from hooklatch.cli.terminal.questions import may_ask
from hooklatch.cli.terminal.requests import ask_administrator, connect_administrator
from hooklatch.client.admin import AdminConnection
from hooklatch.core.light_json import as_object
from hooklatch.core.text import find_disguised_word, find_omission_mark, format_count, format_duration
from hooklatch.errors import RequestFailedError
from hooklatch_worker.author.tools import KINDS, UnclearToolError, arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hooklatch.core.answers import Ask, AskAnnounced, AskAnswer, AskEnd, AsksAnswer

__all__ = ["SETTLE", "AskPrompt", "add_answer", "add_asks", "find_user_name", "format_resolution"]

BELOW = (("answer", "hooks.asks", "answer an ask that waits, with a reason that the agent is told"),)
# Our own labels: a field of that name is quoted.
OURS = ("ask", "asks", "instead", "folder", "payload", "changed", "warning")
PLAIN = re.compile(r"[\w.-]+", re.ASCII)
MARKS = ("", '"', "{", "[")  # a text that begins with one is shown as JSON, or it could be taken for another value
WORDS = {"a": "allow", "allow": "allow", "y": "allow", "d": "deny", "deny": "deny"}
KEYS = "a REASON allows, d REASON denies, n is the next one, q ends"
STDIN, STDOUT = 0, 1
AROUND = 4  # lines above and below the details of an ask
WIDEST = 24  # columns of a label: the agent chose the names of its fields
MAX_NOTICES = 5  # of other asks, below the ask that is shown
SETTLE = 1.0  # seconds for which no line answers an ask that has taken the place of another by itself


def add_asks(parser: Parser) -> None:
    parser.runs(list_asks, example="hooklatch asks", exits=(Exit.UNAVAILABLE,))
    parser.prints("core.answers:AsksAnswer", "core.answers:AskAnnounced")
    parser.add_argument(
        "--follow", action="store_true", help="show asks as they come, until Ctrl-C; at a terminal, answer them"
    )
    parser.set_defaults(follow=False)
    add_bell_option(parser)
    parser.add_commands(BELOW)


def add_answer(parser: Parser) -> None:
    example = 'hooklatch asks answer 3f2a-7 deny --reason "not on a Friday"'
    parser.runs(answer_ask, example=example, exits=(Exit.NO_INPUT, Exit.UNAVAILABLE))
    parser.prints("core.answers:AskAnswer")
    parser.add_argument("ask", metavar="ID", help="the ask, as `hooklatch asks` shows it")
    parser.add_argument("verdict", metavar="VERDICT", choices=("allow", "deny"), help="allow or deny")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why; it stays in the record")
    parser.add_argument("--by", metavar="NAME", help="who you are (default: your user's name)")


def list_asks(arguments: argparse.Namespace) -> int:
    """Show the asks that wait, once or as they come."""
    try:
        if not arguments.follow:
            return print_asks(arguments)
        with AskBell(arguments) as bell:
            if arguments.json or not may_ask():
                return follow_asks(arguments, bell)
            return follow_at_terminal(arguments, bell)
    except KeyboardInterrupt:
        return Exit.OK  # the normal way to stop following


def print_asks(arguments: argparse.Namespace) -> int:
    result: AsksAnswer = ask_administrator(arguments, "asks")
    return output.say_result(result, is_json=arguments.json, show=lambda: print_waiting(result["asks"]))


def print_waiting(asks: Sequence[Ask]) -> None:
    for ask in asks:
        print_ask(ask)
    if not asks:
        output.print_line("no ask waits for a person")


def answer_ask(arguments: argparse.Namespace) -> int:
    by = arguments.by or find_user_name()
    result: AskAnswer = ask_administrator(
        arguments, "answer_ask", id=arguments.ask, verdict=arguments.verdict, reason=arguments.reason, by=by
    )
    line = [f"{arguments.ask}: ", *format_resolution(result["closed"])]
    return output.say_result(result, line, is_json=arguments.json)


# -- following ---------------------------------------------------------------------------------------------------


def follow_asks(arguments: argparse.Namespace, bell: AskBell) -> int:
    """Print each ask that opens and each resolution, beginning with the asks that are open."""
    # Subscribed before the asks are listed: one that opens in between is announced.
    with connect_administrator(arguments) as link:
        link.ask("subscribe", topics=["asks"])
        bell.follow(link)
        known: set[str] = set()
        for ask in link.ask("asks")["asks"]:
            known.add(ask["id"])
            print_ask_change({"topic": "asks", "opened": ask}, is_json=arguments.json)
        while output.has_reader():
            message = link.announcement()
            bell.take(link, message)
            opened = message.get("opened")
            if opened is None or opened["id"] not in known:  # it may have been listed already
                print_ask_change(message, is_json=arguments.json)
    return Exit.OK


def print_ask_change(message: AskAnnounced, *, is_json: bool) -> None:
    if is_json:
        output.say_json(message)
    elif "opened" in message:
        print_ask(message["opened"])
    elif "closed" in message:
        output.print_line(f"{message['closed']['id']}: ", *format_resolution(message["closed"]))
    elif "missed" in message:
        output.print_line(
            paint_text(f"missed {format_count(message['missed'], 'line')}; see: hooklatch asks", "warning")
        )


def follow_at_terminal(arguments: argparse.Namespace, bell: AskBell) -> int:
    with connect_administrator(arguments) as link:
        link.ask("subscribe", topics=["asks"])
        prompt = AskPrompt(link, find_user_name())
        output.print_error(f"asks at {link.path}; {KEYS}")
        bell.follow(link)
        prompt.refresh()
        typed = b""
        while not prompt.is_over:
            prompt.print_prompt()
            about = prompt.shown
            # Announcements first: an answer must not be typed at an ask that has ended already.
            if link.has_line or link.fileno() in select.select([STDIN, link.fileno()], [], [])[0]:
                message = link.announcement()
                prompt.take_announcement(message)
                bell.take(link, message)
            else:
                data = os.read(STDIN, 4096)
                *lines, typed = (typed + data).split(b"\n")  # Ctrl-D sends a line that has no end yet
                for line in lines if data else [b"q"]:
                    prompt.take_line(line.decode(errors="replace").strip())
            if prompt.shown != about and typed:  # the beginning of a line about another ask
                typed, prompt.is_halfway = b"", True
    return Exit.OK


class AskPrompt:
    """A prompt for the open asks: the one that is shown, and the part of its answer that was typed so far."""

    def __init__(self, link: AdminConnection, name: str) -> None:
        self.is_over = False
        self.is_halfway = False  # the next line is the end of one that was begun about another ask
        self._link = link
        self._name = name
        self._open: dict[str, Ask] = {}
        self._shown: str | None = None
        self._verdict: str | None = None  # typed already, and its reason is not
        self._replaced_at = -SETTLE  # the moment at which another ask was shown without a command of the person
        self._has_ended = False  # the last ask that was shown ended by itself, and no line was typed since
        self._notices = 0  # about other asks, below the one that is shown
        self._is_prompted = False

    @property
    def shown(self) -> str | None:
        """Return the id of the ask that is shown."""
        return self._shown

    def refresh(self) -> None:
        """Read which asks are open now; the one that is shown stays if it is still open."""
        self._open = {ask["id"]: ask for ask in self._link.ask("asks")["asks"]}
        if self._shown is None:
            self._show_next()
        elif self._shown not in self._open:
            self._replace()

    def print_prompt(self) -> None:
        if self._shown is None or self._is_prompted:
            return
        others = f"; {len(self._open) - 1} more" if self._notices > MAX_NOTICES else ""
        text = f"{self._verdict}, because: " if self._verdict is not None else f"{self._shown} [a/d/n/q{others}]: "
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_prompted = True

    def take_announcement(self, message: AskAnnounced) -> None:
        if "missed" in message:
            self._print_apart("")
            self.refresh()
        elif "opened" in message and message["opened"]["id"] not in self._open:
            ask = message["opened"]
            self._open[ask["id"]] = ask
            if self._shown is None:
                self._replace() if self._has_ended else self._show_next()
                return
            self._notices += 1  # a flood would push away the ask that is shown, so only the first ones are printed
            if self._notices <= MAX_NOTICES:
                self._print_apart(f"{ask['subject']}: {ask['id']} waits too: {ask['reason']}")
        elif "closed" in message and self._open.pop(message["closed"]["id"], None) is not None:
            closed = message["closed"]
            if closed["id"] == self._shown or self._notices <= MAX_NOTICES:
                self._print_apart(f"{closed['id']}: ", *format_resolution(closed))
            if closed["id"] == self._shown:
                self._replace()

    def take_line(self, line: str) -> None:
        """Take a line that was typed."""
        self._is_prompted = False
        word, _, reason = line.partition(" ")
        is_halfway, self.is_halfway, self._has_ended = self.is_halfway, False, False
        if self._verdict is not None:
            self._answer(self._verdict, line)
        elif word == "q":
            self.is_over = True
        elif self._shown is None:
            output.print_line("nothing waits")
        elif is_halfway or (word in WORDS and time.monotonic() - self._replaced_at < SETTLE):
            output.print_line(paint_text("nothing was answered: another ask has just been shown", "warning"))
        elif word in WORDS:
            self._answer(WORDS[word], reason.strip())
        elif word in ("n", ""):
            self._show_next()
        else:
            output.print_line(paint_text(KEYS, "warning"))

    def _answer(self, verdict: str, reason: str) -> None:
        ask = self._open.get(self._shown or "")
        if ask is None:
            return
        if not reason:  # the reason is asked for once; an empty line then takes the verdict back
            self._verdict = verdict if self._verdict is None else None
            return
        self._verdict = None
        try:
            # With the digest of what was shown: the daemon refuses an answer to anything else.
            result: AskAnswer = self._link.ask(
                "answer_ask", id=ask["id"], verdict=verdict, reason=reason, by=self._name,
                payload_digest=ask["payload_digest"],
            )  # fmt: skip
            output.print_line(f"{ask['id']}: ", *format_resolution(result["closed"]))
        except RequestFailedError as error:
            output.print_line(paint_text(error.message, "bad"))
        self._open.pop(ask["id"], None)
        self._show_next()

    def _replace(self) -> None:
        """Show another ask in the place of one that has ended by itself, if there is one."""
        self.is_halfway = self.is_halfway or self._verdict is not None
        self._has_ended = True
        self._show_next()
        self._replaced_at = time.monotonic()

    def _show_next(self) -> None:
        """Show the ask after the one that is shown, in the order in which they came."""
        ids = list(self._open)
        index = ids.index(self._shown) + 1 if self._shown in ids else 0
        self._shown = ids[index % len(ids)] if ids else None
        self._verdict = None
        self._notices = 0
        if self._shown is not None:
            self.is_halfway = drop_typed() or self.is_halfway  # unread input was about another ask
            self._print_apart("")
            print_ask(self._open[self._shown])

    def _print_apart(self, *pieces: str) -> None:
        """Print a line of its own, also beside a prompt."""
        if self._is_prompted:
            sys.stdout.write("\n")
            self._is_prompted = False
        output.print_line(*pieces, is_tight=True)


def drop_typed() -> bool:
    """Drop unread input; return whether it ends within a line, whose end will then come as a line of its own."""
    try:
        saved = termios.tcgetattr(STDIN)
    except termios.error:
        return False
    modes, data = list(saved), b""
    modes[3] = saved[3] & ~termios.ICANON  # else a line without its end is not read: termios(3)
    modes[6] = [*saved[6]]
    modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0  # return at once, also without input
    termios.tcsetattr(STDIN, termios.TCSANOW, modes)
    try:
        while more := os.read(STDIN, 4096):
            data = more
    finally:
        termios.tcsetattr(STDIN, termios.TCSANOW, saved)
    return bool(data) and not data.endswith(b"\n")


# -- one ask -----------------------------------------------------------------------------------------------------


def print_ask(ask: Ask) -> None:
    """Print all of an ask; warn if its beginning has left the screen."""
    where = [f"session {ask['session_id']}" if ask["session_id"] else "", f"in {ask['host']}" if ask["host"] else ""]
    what = " ".join(filter(None, (ask["event"], ask["tool"])))
    output.print_line(paint_text(ask["subject"], "title"), is_tight=True)
    title = f"{ask['id']}  {', '.join(filter(None, (what, *where)))}; {format_ask_times(ask)}"
    details = [("ask", title), *list_ask_details(ask)]
    height = output.say_lines(*details, width=min(max(len(label) for label, _ in details), WIDEST) + 2, is_tight=True)
    if terminal_width(sys.stdout) is not None and height + AROUND > (os.get_terminal_size(STDOUT).lines or 24):
        text = f"it takes {height} lines, more than fit here: scroll up to {ask['id']}, and read it all"
        output.print_line(paint_text(text, "warning"))


def format_ask_times(ask: Ask) -> str:
    now = time.time()
    age, remaining = now - parse_timestamp(ask["at"]), parse_timestamp(ask["expires_at"]) - now
    return f"asked {format_duration(max(age, 0))} ago, denied in {format_duration(max(remaining, 0))}"


def parse_timestamp(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def list_ask_details(ask: Ask) -> Iterator[tuple[str, object]]:
    """Yield the details of an ask, those that cannot be seen last: the answer is typed below them."""
    for question in ask["questions"]:
        yield "asks", f"{question['hook']}: {question['reason']}"
    if ask["instead"] is not None:
        yield "instead", f"if you deny, the agent is told to run: {ask['instead']}"
    if ask["cwd"] not in (None, as_object(ask["excerpt"]).get("cwd")):
        yield "folder", format_ask_value(ask["cwd"])
    shown = format_ask_json(ask["excerpt"], ask["excerpt_cut"])
    if ask["excerpt"] is not None:
        yield from list_payload_values(ask["excerpt"])
    elif shown:
        yield "payload", shown
    changed = format_ask_json(ask["patch"], ask["patch_cut"])
    if changed:
        yield "changed", f"by hooks, from what the agent sent: {changed}"
    if ask["questions_omitted"]:
        yield "warning", f"{format_count(ask['questions_omitted'], 'hook')} more ask; deny what you cannot see"
    if ask["excerpt"] is None:
        yield "warning", f"this is not all of its {ask['payload_bytes']} bytes; deny what you cannot see"
    if ask["patch_cut"] is not None:
        yield "warning", "this is not all of what hooks changed; deny what you cannot see"
    if word := find_disguised_word(shown) or find_disguised_word(changed):
        yield "warning", f"{word} has letters that look like others; deny what is not what it seems"
    if mark := find_omission_mark(shown, changed):
        yield "warning", f"what stands as {mark} may be anything; deny what you cannot see"


def format_ask_json(value: object, text: str | None) -> str:
    return output.format_json(value) if value is not None else text or ""


def list_payload_values(payload: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the fields of a payload, and a tool's input key by key, since that is what is judged."""
    tool_input = as_object(payload.get("tool_input"))
    for key, value in as_object(payload).items():
        if key == "tool_input" and tool_input:
            yield from ((f"  {quote_label(name)}", format_ask_value(item)) for name, item in tool_input.items())
        elif not repeats_input(key, value, payload):
            yield quote_label(key), format_ask_value(value)


def repeats_input(key: str, value: object, payload: dict[str, Any]) -> bool:
    """Return whether a field only repeats the tool's name or input; an agent may send another value there."""
    if key == "tool_kind":
        return isinstance(value, str) and value in KINDS
    try:
        tool_arguments = arguments(str(payload.get("tool_kind")), as_object(payload.get("tool_input")))
    except UnclearToolError:
        return False
    return key == "tool_args" and output.format_json(value) == output.format_json(tool_arguments)


def quote_label(key: str) -> str:
    """Return a field's name; quoted where it could be taken for another one, or for one of our labels."""
    return key if PLAIN.fullmatch(key) and key not in OURS else output.format_json(key)


def format_ask_value(value: object) -> str:
    """Return a value for people: a text as it is, unless it could be taken for another value."""
    if isinstance(value, str) and value == output.escape_invisible(value).strip() and value[:1] not in MARKS:
        return value
    return output.format_json(value)


def format_resolution(closed: AskEnd) -> list[str]:
    word = paint_text("allowed", "good") if closed["verdict"] == "allow" else paint_text("denied", "bad")
    by = f" by {closed['by']}" if closed["by"] else ""
    return [word, f"{by}: {closed['reason']}"]


def find_user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"

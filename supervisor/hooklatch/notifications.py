"""The table [ask.notify], and its notifiers: the programs that tell a person that an ask waits.

    an ask opens ─▶ each notifier: at most 3 at once ─▶ a program, with a time limit ─▶ it ended well, or a warning
                        ├─ all of them run: the asks that come meanwhile are in one notification
                        └─ other settings: the notifier of the same name reports what this one has not yet;
                           a new one reports all asks that wait

No fire waits for a notifier, and none changes a decision.  A program is killed with all that it started.  Text of an
ask is in no command line but that of the desktop's program, where it cannot be an option or an escape.  An ask that
ended before its notification began is left out.
"""

from __future__ import annotations

import fcntl
import ipaddress
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast
from urllib.parse import urlencode, urlsplit

import msgspec
import trio
from msgspec import Meta

from hooklatch import paths, webhook
from hooklatch.core.tables import InvalidTableError
from hooklatch.core.text import escape_text, format_count, format_duration
from hooklatch.disks import limit_look
from hooklatch.environments.interpreter import run_program
from hooklatch.errors import describe_error
from hooklatch.files import open_regular_file
from hooklatch.service.api.methods import Contribution
from hooklatch.service.config.settings import MainTable, Settings, TableEffect, make_absolute
from hooklatch.threads import in_thread
from hooklatch_worker.sandbox.children import OWN, isolated_command
from hooklatch_worker.systems import PLATFORM

if TYPE_CHECKING:
    from hooklatch.core.answers import Ask
    from hooklatch.service.parts import DaemonComponents

__all__ = ["TABLE", "NotificationSender", "NotifyTable"]

logger = logging.getLogger("hooklatch.notifications")
MAX_AT_ONCE = 3  # of one notifier
PAUSE = 1.0  # seconds for which each has its place at least: a flood of asks is a few notifications a second
LISTED = 3  # asks in the text of a desktop
MAX_TEXT = 200  # characters of a subject, a reason and an error in a notification
ANSWER = "hooklatch asks --follow"
IS_MAC, OSASCRIPT = PLATFORM.startswith("darwin"), "/usr/bin/osascript"
# For osascript(1): the texts are its arguments, and no part of the script.
SHOW = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
# A notifier also needs the user's screen, and a webhook the authorities that the user trusts.
ENVIRONMENT = OWN._replace(
    names=OWN.names
    | {"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
PRINTABLE = re.compile(r"[!-~]+")
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+/[\w-]+)\n", re.ASCII)


class NotifyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[ask.notify]: who tells a person that an ask begins to wait."""

    desktop: bool = False
    command: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[^\x00]+\Z")], ...],
        Meta(examples=[["~/bin/ring", "--loud"]], extra={"is": "a program and its arguments, as a list of texts"}),
    ] = ()
    webhook: Annotated[str, Meta(examples=["https://chat.example/hooks/asks"])] | None = None
    timeout: Annotated[float, Meta(gt=0, le=600)] = 10.0

    def __post_init__(self) -> None:
        if self.webhook is not None and (fault := find_url_fault(self.webhook)) is not None:
            raise InvalidTableError(f"webhook {fault}", ("webhook",))


def find_url_fault(url: str) -> str | None:
    """Return why no ask may be posted to a URL; None if it may.  The text does not repeat it: it may hold a secret."""
    try:
        place = urlsplit(url)
        host, _ = place.hostname, place.port
    except ValueError as error:
        return f"is not a URL: {error}"
    if not host or place.scheme not in ("http", "https") or not PRINTABLE.fullmatch(url):
        return "must be a URL such as https://chat.example/hooks/asks, in ASCII"
    if place.username is not None or place.fragment:
        return "must be a URL without a user, a password and a fragment"
    if place.scheme == "http" and not is_loopback(host):
        return "must begin with https://: what is asked leaves this machine"
    return None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_notify_table(table: NotifyTable, folder: str) -> TableEffect:
    """Return the settings; a command with a slash is a path relative to the folder of the file."""
    if table.command and ("/" in table.command[0] or table.command[0].startswith("~")):
        table = msgspec.structs.replace(table, command=(make_absolute(table.command[0], folder), *table.command[1:]))
    return TableEffect(notify=msgspec.json.decode(msgspec.json.encode(table)))


TABLE = MainTable(NotifyTable, read_notify_table)


# -- what is said ----------------------------------------------------------------------------------------------------


class Program(NamedTuple):
    """A command line, and what its standard input holds."""

    command: Sequence[str]
    data: bytes = b""


MakeProgram: TypeAlias = Callable[[Sequence["Ask"], str | None], Program]


def clean_text(text: str) -> str:
    """Return one short line of visible characters."""
    return escape_text(text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…")


def escape_markup(text: str) -> str:
    """Return a text without markup: desktops and chats read some of HTML's."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def make_title(asks: Sequence[Ask]) -> str:
    return "An ask waits" if len(asks) == 1 else f"{len(asks)} asks wait"


@limit_look
def find_dashboard(path: str) -> str | None:
    """Return the address of the dashboard that runs beside this daemon, by its file; None if there is none."""
    try:
        with open_regular_file(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # it holds the lock
                address = ADDRESS.fullmatch(file.read(MAX_TEXT).decode("ascii", "replace"))
                return address[1] if address is not None else None
    except OSError:
        pass
    return None


def make_desktop_program(asks: Sequence[Ask], dashboard: str | None) -> Program:
    # Without the dashboard: its path is a secret, and other users can read a command line.
    first = asks[0]
    lines = [*(clean_text(ask["subject"]) for ask in asks[:LISTED]), clean_text(first["reason"]), ANSWER]
    if IS_MAC:
        script = [word for line in SHOW for word in ("-e", line)]
        return Program([OSASCRIPT, *script, "--", make_title(asks), "\n".join(lines)])
    # notify-send reads escapes with a backslash in the body (g_strcompress of GLib), and the desktop reads markup.
    body = escape_markup("\n".join(lines)).replace("\\", "\\\\")
    options = ("--app-name=hooklatch", "--urgency=critical")  # a desktop shows a critical one until it is seen
    return Program(["notify-send", *options, "--", make_title(asks), body])


def make_document(asks: Sequence[Ask], dashboard: str | None) -> bytes:
    """Return the JSON of a notification: a text for chats, the first ask, its page, and the names of the others."""
    first, *others = asks
    shown = [clean_text(text).replace("`", "'") for text in (first["subject"], first["reason"])]  # as code, no mention
    text = escape_markup(f"{make_title(asks)}: `{shown[0]}` because `{shown[1]}`; {ANSWER}")
    named = [{"id": ask["id"], "subject": ask["subject"]} for ask in others]
    query = urlencode({"id": first["id"], "digest": first["payload_digest"]})
    link = f"{dashboard}/ask?{query}" if dashboard is not None else None
    return msgspec.json.encode({"text": text, "ask": first, "others": named, "link": link, "answer": ANSWER})


# -- the part of the daemon ------------------------------------------------------------------------------------------


class NotifyChannel:
    """One way to tell a person: the asks that it has not told yet, and the programs that tell."""

    def __init__(
        self, name: str, make_program: MakeProgram, timeout: float, environ: Mapping[str, str], dashboard: str
    ) -> None:
        self.name = name
        self.fault: str | None = None
        self._make_program = make_program
        self._timeout = timeout
        self._environ = environ
        self._dashboard = dashboard  # the path of its file
        self._failures = 0  # since it last worked
        self._waiting: dict[str, Ask] = {}  # at most as many as may be open
        self._telling: dict[str, Ask] = {}  # by programs that run
        self._arrived = trio.Event()

    @property
    def untold(self) -> list[Ask]:
        """Return the asks that wait, and that no program has reported to its end."""
        return [*self._telling.values(), *self._waiting.values()]

    def add(self, ask: Ask) -> None:
        self._waiting[ask["id"]] = ask
        self._arrived.set()

    def drop(self, ask_id: str) -> None:
        self._waiting.pop(ask_id, None)
        self._telling.pop(ask_id, None)

    async def run(self) -> None:
        places = trio.Semaphore(MAX_AT_ONCE)
        async with trio.open_nursery() as nursery:
            while True:
                await places.acquire()
                while not self._waiting:
                    self._arrived = trio.Event()
                    await self._arrived.wait()
                asks, self._waiting = [*self._waiting.values()], {}
                self._telling |= {ask["id"]: ask for ask in asks}
                nursery.start_soon(self._notify, asks, places)

    async def _notify(self, asks: Sequence[Ask], places: trio.Semaphore) -> None:
        free_at = trio.current_time() + PAUSE
        names = ", ".join(ask["id"] for ask in asks)
        if len(asks) > 1:
            text = "%s came at once, and are in one notification"
            logger.info(text, format_count(len(asks), "ask"), extra={"notifier": self.name, "asks": names})
        try:
            dashboard = await in_thread(find_dashboard, self._dashboard, abandon_on_cancel=True)
        except TimeoutError:
            dashboard = None
        fault = await self._run_program(self._make_program(asks, dashboard))
        for ask in asks if fault is None else ():  # else a notifier with other settings may report them
            self._telling.pop(ask["id"], None)
        self._failures = self._failures + 1 if fault is not None else 0
        self.fault = None
        if fault is not None:
            times = f", {self._failures} times in a row" if self._failures > 1 else ""
            self.fault = f"[ask.notify] {self.name} failed{times}: {fault}"
            logger.warning("%s", self.fault, extra={"asks": names})
        await trio.sleep_until(free_at)
        places.release()

    async def _run_program(self, program: Program) -> str | None:
        """Run a program to its end; return what went wrong."""
        try:
            ended = await run_program(
                program.command, self._environ, folder="/", timeout=self._timeout, stdin=program.data
            )
        except OSError as error:
            return f"it cannot be started: {describe_error(error)}"
        if ended.code is None:
            return f"it took longer than {format_duration(self._timeout)}, and was killed"
        return f"exit code {ended.code}: {clean_text(ended.last_lines(1))}" if ended.code else None


class NotificationSender(Contribution):
    """The notifiers of the settings, which hear of each ask that opens and ends."""

    def __init__(self, daemon: DaemonComponents) -> None:
        self._notifiers: list[NotifyChannel] = []
        self._kept: dict[str, Any] | None = None
        self._is_asking = False
        self._changed = trio.Event()
        # For a command that is a dialog, and answers the ask at this daemon.
        folder = os.path.dirname(daemon.places["admin"])
        own, self._dashboard = {"HOOKLATCH_RUNTIME_DIR": folder}, os.path.join(folder, paths.DASHBOARD)
        self._environ = {**ENVIRONMENT.of(os.environ), **own}
        self._asks = daemon.asks
        daemon.asks.listeners.append(self._hear)

    @property
    def warnings(self) -> list[str]:
        silent = "[ask.notify] tells of nothing while [ask] wait is 0: agents ask by themselves"
        return [
            *(notifier.fault for notifier in self._notifiers if notifier.fault is not None),
            *([silent] if self._notifiers and not self._is_asking else []),
        ]

    def take(self, settings: Settings) -> None:
        """Apply new settings; what runs by other ones ends, and the new ones report its asks."""
        self._is_asking = settings.ask_wait > 0
        if settings.notify == self._kept:
            return
        table = msgspec.convert(settings.notify or {}, NotifyTable)
        programs: dict[str, MakeProgram] = {}
        if table.desktop:
            programs["desktop"] = make_desktop_program
        if table.command:
            programs["command"] = lambda asks, dashboard: Program(table.command, make_document(asks, dashboard))
        if table.webhook is not None:
            post = isolated_command(sys.executable, "-S", webhook.__file__)
            first_line = f"{table.webhook}\n".encode()
            is_here = table.webhook.startswith("http:")  # what leaves this machine has no secret of it
            programs["webhook"] = lambda asks, dashboard: Program(
                post, first_line + make_document(asks, dashboard if is_here else None)
            )
        before = {notifier.name: notifier.untold for notifier in self._notifiers}
        self._notifiers = [
            NotifyChannel(name, make_program, table.timeout, self._environ, self._dashboard)
            for name, make_program in programs.items()
        ]
        for notifier in self._notifiers:
            for ask in before.get(notifier.name, self._asks):
                notifier.add(ask)
        self._kept = settings.notify
        self._changed.set()

    def _hear(self, content: Mapping[str, object]) -> None:
        """Take an ask that has opened, or the end of one.  An agent's fire is at this step, so nothing is done here."""
        opened, closed = (cast("Mapping[str, Any] | None", content.get(key)) for key in ("opened", "closed"))
        for notifier in self._notifiers:
            if opened is not None:
                notifier.add(cast("Ask", opened))
            elif closed is not None:
                notifier.drop(closed["id"])

    async def run(self) -> None:
        while True:
            changed = self._changed = trio.Event()
            async with trio.open_nursery() as nursery:
                for notifier in self._notifiers:
                    nursery.start_soon(notifier.run)
                await changed.wait()
                nursery.cancel_scope.cancel()

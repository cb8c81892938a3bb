"""systemd of this user: units with the path of the program that installed them, and the PATH of its terminal."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from hooklatch.cli.daemon.managers import (
    LINK,
    MARK,
    PROGRAM,
    SERVICE,
    UNITS,
    ask_manager,
    find_own_program,
    list_options,
    order_manager,
)
from hooklatch.cli.hosts.programs import units_folder
from hooklatch.cli.terminal.parser import CommandError, Exit

__all__ = ["Systemd", "fill_in", "quote_for_systemd"]

SYSTEMCTL = ("systemctl", "--user")
SOCKETS = ("hooklatch-agent.socket", "hooklatch-admin.socket")


class Systemd:
    """systemctl --user, as a `ServiceManager`."""

    title = "systemd"
    log_hint = f"journalctl --user -u {SERVICE}"
    login_note = "where agents run while you are not logged in: loginctl enable-linger"

    def make_files(self, arguments: argparse.Namespace, *, has_link: bool = False) -> dict[str, str]:
        options, sockets = list_options(arguments, ("HOME", "XDG_RUNTIME_DIR"))
        return {
            os.path.join(
                units_folder(), name
            ): f"# {MARK}\n{fill_in((UNITS / 'user' / name).read_text(), options, sockets)}"
            for name in (*SOCKETS, SERVICE, *([LINK] if has_link else []))
        }

    def find_fault(self) -> str | None:
        code, answer = ask_manager(*SYSTEMCTL, "show", "--property=Version")
        return f"systemctl --user does not work here ({answer})" if code else None

    def start(self, paths: Sequence[str], *, is_changed: bool, is_managed: bool) -> None:
        order_manager(*SYSTEMCTL, "daemon-reload")
        order_manager(*SYSTEMCTL, "enable", "--now", *map(os.path.basename, paths))
        if is_changed and is_managed:
            order_manager(*SYSTEMCTL, "restart", SERVICE)

    def stop(self, paths: Sequence[str]) -> None:
        order_manager(*SYSTEMCTL, "disable", "--now", *map(os.path.basename, paths))

    def forget(self) -> None:
        order_manager(*SYSTEMCTL, "daemon-reload")

    def ask_state(self, path: str) -> tuple[str, str]:
        name = os.path.basename(path)
        return ask_manager(*SYSTEMCTL, "is-enabled", name)[1], ask_manager(*SYSTEMCTL, "is-active", name)[1]


def fill_in(unit: str, options: list[str], sockets: str = "") -> str:
    """Return a unit with the path of this program, and its PATH."""
    program = " ".join(map(quote_for_systemd, find_own_program()))
    config = " ".join(map(quote_for_systemd, options))
    path = quote_for_systemd(f"PATH={os.environ.get('PATH') or os.defpath}", is_command=False)
    text = PROGRAM.sub(lambda found: f"{program} {found[1]} {config}".rstrip(), unit)
    text = re.sub(r"^(ExecStart=.*)$", lambda found: f"{found[1]}\nEnvironment={path}", text, flags=re.MULTILINE)
    return text.replace("ListenStream=%t/hooklatch", f"ListenStream={sockets.replace('%', '%%')}") if sockets else text


def quote_for_systemd(word: str, *, is_command: bool = True) -> str:
    """Return a word as it stands in a unit (systemd.service(5), "COMMAND LINES"; systemd.unit(5), "SPECIFIERS")."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    text = text.replace("$", "$$") if is_command else text
    if "\n" in text:
        raise CommandError(Exit.CANNOT_CREATE, f"{word!r} has a line break, which a unit cannot hold")
    return text if re.fullmatch(r"[\w./%$:=@+,-]+", text) else f'"{text}"'

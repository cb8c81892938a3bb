"""What each run begins with: texts that try to get out of the sandbox, and settings in which it must refuse to begin.

The texts are data: no shell outside of the sandbox gets one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from guards.oracle.sandbox import NOBODY, NOTHING_LESS, SHELLS, Built, Lacking, Ran, Refused, Sandbox

__all__ = ["ESCAPES", "WEAKER", "probe", "refused"]

ROOT = [b"/ORACLE", b"/bin", b"/dev", b"/lib", b"/lib64", b"/tmp", b"/w"]
LS = b"prog1 /*; prog2 /dev/* /w/* /proc/* /home/*; prog3 /bin/r* /bin/s[ehu]*"
SEEN = [
    [b"prog1", *ROOT],
    [b"prog2", b"/dev/null", b"/w/*", b"/proc/*", b"/home/*"],
    b"prog3 /bin/reboot /bin/rm /bin/rsync /bin/sed /bin/setsid /bin/sh /bin/shred /bin/su /bin/sudo".split(),
]
# Each must run nothing but prog1, and end: nothing outside is hurt, and the next text finds all as it was.
ESCAPES = {
    "a program is written": b"prog1; true >/bin/new && prog2; true >/bin/rm && prog3; true >>/bin/bash && prog4",
    "a program is removed": b"prog1; exec 7</bin/stub; cd /bin && true >stub && prog2",
    "what is outside is looked for": b"prog1; cd /.. && [ -e etc ] && prog2; [ -e /w/../../usr ] && prog3",
    "a device is opened": b"prog1; true </dev/sda && prog2; true </dev/tty && prog3; true </dev/mem && prog4",
    "a folder fills": b"prog1; i=0; while [ $i -lt 1000 ]; do true >/w/f$i || exit; i=$((i+1)); done; prog2",
    "the first process is killed": b"prog1; kill -9 1; kill -9 -1; kill -9 0; kill -9 $$",
    "limits are lifted": b"prog1; ulimit -v unlimited && prog2; ulimit -c 100 && prog3; ulimit -n 300 && prog4",
    "its log is closed": b"prog1; exec 200>&-; prog2",
}
# What never ends, or takes all there is; of no shell's own, so bash runs it alone, and all at once.
ENDLESS = {
    "everybody is stopped": b"prog1; kill -STOP 1; kill -STOP -1; kill -STOP $$",
    "a loop": b"prog1; while :; do :; done",
    "loops in the background": b"prog1; (while :; do :; done) & (trap '' 1 2 3 15; while :; do :; done) &",
    "a string doubles": b"prog1; x=aaaaaaaa; while :; do x=$x$x; done",
    "a function calls itself": b"prog1; f() { f; f; }; f",
    "processes double": b"prog1; f() { f | f & }; f",
}
SETTINGS = {
    "as root": (),
    "as another account": ("--reuid=1", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"),
    "as a group of somebody": (f"--reuid={NOBODY}", "--regid=0", "--clear-groups", "--inh-caps=-all", "--no-new-privs"),
    "as root in one of its ids": (f"--euid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"),
    "with groups": (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--groups=4", "--inh-caps=-all", "--no-new-privs"),
    "with capabilities": (
        *(f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=+net_raw", "--no-new-privs"),
    ),
    "without no-new-privs": (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"),
}
OWN_MAP = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")
# A user namespace is not given to who is in a chroot (unshare(2)); FOLDER becomes one that stands for the whole disk.
CHROOT = ("unshare", "--mount", "sh", "-c", 'mount --rbind / "$0" && exec chroot "$0" "$@"', "FOLDER")
# How it is started in each setting that is weaker than it asks for.
WEAKER: dict[str, Sequence[str]] = {
    **{name: ("setpriv", *options) if options else () for name, options in SETTINGS.items()},
    "as somebody who calls themselves nobody": (*OWN_MAP, "setpriv", "--no-new-privs"),
    "as somebody without a number": ("unshare", "--user", "setpriv", "--no-new-privs"),
    "without user namespaces": (*CHROOT, *NOTHING_LESS),
}


def probe(programs: Built, *, is_short: bool = False) -> None:
    """Try to get out of the sandbox, in each shell; a short look leaves out what only its limits of time end.

    Raises:
        Refused: something is not as it has to be.
    """
    with bystander() as process, ThreadPoolExecutor(3) as pool:
        endless = {} if is_short else ENDLESS
        tries = [pool.submit(escape, programs, "bash", {name: text}) for name, text in endless.items()]
        tries += [pool.submit(escape, programs, shell, ESCAPES) for shell in SHELLS]
        for one in tries:
            one.result()
        if process.poll() is not None:
            raise Refused("a process outside was hurt")


def escape(programs: Built, shell: str, texts: Mapping[str, bytes]) -> None:
    with Sandbox(programs) as sandbox, listener() as port:
        sees(sandbox, shell)
        for name, text in texts.items():
            ran = sandbox.run(shell, text)
            if ran.words != [[b"prog1"]]:
                raise Refused(f"{name}, in {shell}: {ran}")
            sees(sandbox, shell)
        reaches_nobody(sandbox.run(shell, b"prog1; : >/dev/tcp/127.0.0.1/%d && prog2" % port.getsockname()[1]), port)


def sees(sandbox: Sandbox, shell: str) -> None:
    """Assert that a text sees the sandbox alone, and nothing of the texts before it."""
    seen = sandbox.run(shell, LS)
    if seen != Ran(SEEN, 0):
        raise Refused(f"a text in {shell} sees {seen}")


def reaches_nobody(ran: Ran, port: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        port.accept()[0].close()
        raise Refused("a text reaches the machine's network")
    if ran.words != [[b"prog1"]]:
        raise Refused(f"a text has a network: {ran}")


@contextlib.contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process of the same account outside of the sandbox."""
    command = [*NOTHING_LESS, "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        yield process  # it ends with its input


@contextlib.contextmanager
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.setblocking(False)
        yield port


def refused(programs: Built, begin: Sequence[str]) -> str:
    """Start a sandbox in a setting, and return why it did not begin.

    Raises:
        AssertionError: it did begin, or ended otherwise than it should.
    """
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        sandbox = Sandbox(programs, begin=[folder if word == "FOLDER" else word for word in begin])
        try:
            ran = sandbox.run("dash", b"prog1")
        except (Refused, Lacking) as error:
            said = str(error)
        else:
            raise AssertionError(f"a text ran: {ran}")
        finally:
            status, _ = sandbox.close()
    assert status == 99, f"it ended with {status}: {said}"
    assert said.startswith("oracle: "), said
    return said


def is_possible(begin: Sequence[str]) -> bool:
    """Return whether this machine can start anything in a setting."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        command = [folder if word == "FOLDER" else word for word in (*begin, "true")]
        return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0

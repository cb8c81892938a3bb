"""[ask.notify]: a real ask in a real daemon, and the real programs and servers that hear of it, or fail to."""

from __future__ import annotations

import json
import os
import ssl
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch import notifications
from hooklatch.service.config.configuration import ConfigError, read_config
from hooklatch_worker.systems import system
from hooklatch_worker.systems.portable import PortableSystem
from support.certificates import Authority
from support.daemons import Client, Daemon, running_daemon
from support.tables import table

pytestmark = pytest.mark.slow  # each notification is two processes of their own

GUARD = """
from hooklatch import ask, hook

@hook("pre_tool_use")
def careful(event):
    return ask("is that wise?")
"""
# Prints its arguments and standard input into files of its folder, and does what its first argument says.
PROGRAM = """#!{python} -IS
import os, subprocess, sys, tempfile, time
folder, mode = {folder!r}, (sys.argv[1:] + [""])[0]
fd, new = tempfile.mkstemp(dir=folder, prefix="new-")
os.write(fd, ("\\0".join(sys.argv[1:])).encode() + b"\\n" + sys.stdin.buffer.read())
os.rename(new, new.replace("new-", "heard-"))
if mode == "fail":
    sys.exit("no \\x1b[31mscreen")
while mode == "flood":
    os.write(1, b"x" * 65536)
while mode == "wait" and not os.path.exists(f"{{folder}}/go"):
    time.sleep(0.01)
if mode == "hang":
    child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
    fd, new = tempfile.mkstemp(dir=folder, prefix="new-")
    os.write(fd, str(child.pid).encode())
    os.rename(new, new.replace("new-", "child-"))
    time.sleep(600)
"""
FORM = '[[source]]\npath = "guards.py"\n\n[ask]\nwait = {wait}\n\n[ask.notify]\n{lines}\n'


class Place:
    """A folder with a daemon's files, and a notifier in it that keeps what it heard."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.program = self.put("bin/ring")

    def put(self, name: str) -> Path:
        path = self.folder / name
        path.write_text(PROGRAM.format(python=sys.executable, folder=str(self.folder)))
        path.chmod(0o700)
        return path

    def files(self, *lines: str, wait: int = 300) -> dict[str, str]:
        return {"hooks.toml": FORM.format(wait=wait, lines="\n".join(lines)), "guards.py": GUARD}

    async def heard(self, count: int = 1, kind: str = "heard") -> list[str]:
        """Return what so many programs have heard, once they have."""
        with trio.fail_after(30):
            while len(found := sorted(self.folder.glob(f"{kind}-*"))) < count:  # noqa: ASYNC110  (they are processes)
                await trio.sleep(0.005)
        return [path.read_text() for path in found]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@asynccontextmanager
async def asking(daemon: Daemon, *commands: str) -> AsyncGenerator[Client]:
    """Have an agent's commands wait; give an administrator."""
    async with daemon.administrator() as admin, daemon.session() as client:
        await admin.call("subscribe", topics=["asks"])
        for command in commands or ("git push",):
            await client.send("fire", event="pre_tool_use", payload=payload(command))
            assert "opened" in await admin.announcement()
        yield admin


@asynccontextmanager
async def asked(place: Place, *lines: str, commands: tuple[str, ...] = ()) -> AsyncGenerator[Client]:
    """Have commands wait in a daemon with these lines in its table; give an administrator."""
    async with running_daemon(place.folder, place.files(*lines)) as daemon, asking(daemon, *commands) as admin:
        yield admin


def payload(command: str) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}}


async def warned(admin: Client, *texts: str) -> str:
    """Return the warnings about asks once all these texts are there."""
    said = ""

    def is_said(status: dict[str, Any]) -> bool:
        nonlocal said
        said = "\n".join(one["what"] for one in status["warned"] if one["reason"] == "asks")
        return bool(said) if texts else not said

    await admin.until_status(lambda status: is_said(status) and all(text in said for text in texts))
    return said


def document(heard: str) -> tuple[list[str], dict[str, Any]]:
    words, _, data = heard.partition("\n")
    return words.split("\0"), json.loads(data)


# -- a command --------------------------------------------------------------------------------------------------------


async def test_a_command_gets_the_ask_on_standard_input_and_its_own_words_alone(place: Place) -> None:
    line = 'command = ["bin/ring", "--loud", "$HOME;`id`"]'
    async with asked(place, line, commands=("git push $(touch /tmp/x)",)) as admin:
        words, said = document((await place.heard())[0])
        (ask,) = (await admin.call("asks"))["asks"]
        await warned(admin)

    assert words == ["--loud", "$HOME;`id`"]
    assert said["ask"] == ask
    assert said["others"] == []
    assert said["link"] is None
    assert said["answer"] == "hooklatch asks --follow"
    assert said["text"] == ("An ask waits: `git push $(touch /tmp/x)` because `is that wise?`; hooklatch asks --follow")


async def test_a_command_reaches_the_daemon_that_asks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s")
    env = f'command = ["/bin/sh", "-c", "env > {place.folder}/new-e; mv {place.folder}/new-e {place.folder}/heard-e"]'
    async with running_daemon(place.folder, place.files(env)) as daemon, asking(daemon):
        (said,) = await place.heard()

        assert f"HOOKLATCH_RUNTIME_DIR={os.path.dirname(daemon.admin)}\n" in said
        assert "SECRET_TOKEN" not in said


async def test_asks_that_come_at_once_are_few_notifications_and_each_that_waits_is_named(place: Place) -> None:
    commands = tuple(f"rm {number}" for number in range(12))
    async with asked(place, 'command = ["bin/ring", "wait"]', commands=commands) as admin:
        await place.heard(3)  # so many run, and wait
        asks = (await admin.call("asks"))["asks"]
        for ask in asks[3:5]:
            await admin.call("answer_ask", id=ask["id"], verdict="deny", reason="no", by="tom")
        (place.folder / "go").touch()
        heard = [document(one)[1] for one in await place.heard(4)]

    (last,) = [said for said in heard if said["others"]]
    assert sorted(said["ask"]["id"] for said in heard if said is not last) == sorted(ask["id"] for ask in asks[:3])
    assert last["ask"] == asks[5]
    assert last["others"] == [{"id": ask["id"], "subject": ask["subject"]} for ask in asks[6:]]
    assert last["text"].startswith("7 asks wait: `rm 5` because ")


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ('command = ["bin/ring", "fail"]', ("command failed: exit code 1: no \\x1b[31mscreen",)),
        ('command = ["bin/absent"]', ("command failed: exit code 127: ", "bin/absent: No such file or directory")),
        ('command = ["no-such-program"]', ("no-such-program: No such file or directory",)),
        ('command = ["bin/ring", "flood"]', ("command failed: ",)),
        ("desktop = true", ("desktop failed: exit code 127: notify-send: No such file",)),
    ],
)
async def test_a_notifier_that_fails_is_a_warning_and_the_ask_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, line: str, texts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    async with running_daemon(tmp_path, Place(tmp_path).files(line)) as daemon, asking(daemon) as admin:
        await warned(admin, *texts)
        (ask,) = (await admin.call("asks"))["asks"]
        closed = await admin.call("answer_ask", id=ask["id"], verdict="allow", reason="yes", by="tom")
        health = await admin.call("health")

    (logged,) = [one for one in caplog.records if one.name == "hooklatch.notifications"]
    assert all(text in logged.getMessage() for text in texts)
    assert closed["closed"]["verdict"] == "allow"
    assert (health["health"], health["reasons"]) == ("ready", [])


async def test_a_notifier_that_hangs_is_killed_with_what_it_started(place: Place) -> None:
    lines = ('command = ["bin/ring", "hang"]', "timeout = 1")
    async with running_daemon(place.folder, place.files(*lines)) as daemon, asking(daemon) as admin:
        (child,) = await place.heard(kind="child")
        await warned(admin, "command failed: it took longer than 1 s, and was killed")

        await until_gone(int(child))  # an orphan is reaped by another than the one that killed it, on some systems


async def test_a_reload_ends_what_runs_and_the_new_notifier_tells_what_was_not_told(place: Place) -> None:
    lines = ('command = ["bin/ring", "hang"]', "timeout = 600")
    async with running_daemon(place.folder, place.files(*lines)) as daemon, asking(daemon) as admin:
        (child,) = await place.heard(kind="child")
        daemon.write("hooks.toml", place.files('command = ["bin/ring", "new"]')["hooks.toml"])
        await admin.call("reload")
        await until_gone(int(child))
        await place.heard(2)
        async with asking(daemon, "make"):
            heard = [document(one) for one in await place.heard(3)]
        daemon.write("hooks.toml", place.files()["hooks.toml"])
        await admin.call("reload")
        async with asking(daemon, "ls"):
            assert len((await admin.call("asks"))["asks"]) == 2

    told = sorted((words[0], said["ask"]["subject"]) for words, said in heard)
    assert told == [("hang", "git push"), ("new", "git push"), ("new", "make")]
    assert len(await place.heard()) == 3


async def test_asks_that_wait_for_a_place_survive_a_reload_and_those_that_were_told_are_not_told_again(
    place: Place,
) -> None:
    lines = ('command = ["bin/ring", "wait"]', "timeout = 600")
    commands = ("one", "two", "three", "four", "five")
    async with running_daemon(place.folder, place.files(*lines)) as daemon, asking(daemon, "told") as admin:
        (place.folder / "go").touch()
        await place.heard(1)
        await warned(admin)
        (place.folder / "go").unlink()
        async with asking(daemon, *commands):
            await place.heard(4)  # three at once: the other asks wait
            daemon.write("hooks.toml", place.files('command = ["bin/ring", "new"]')["hooks.toml"])
            await admin.call("reload")
            named = set[str]()
            count = 4
            while named != {*commands}:
                count += 1
                said = [document(one) for one in await place.heard(count)]
                new = [text for words, text in said if words == ["new"]]
                named = {one["subject"] for text in new for one in (text["ask"], *text["others"])}

    assert "told" not in named


async def test_a_notifier_that_is_added_tells_of_asks_that_wait_already(place: Place) -> None:
    async with running_daemon(place.folder, place.files()) as daemon, asking(daemon) as admin:
        daemon.write("hooks.toml", place.files('command = ["bin/ring", "new"]')["hooks.toml"])
        await admin.call("reload")
        words, said = document((await place.heard())[0])

    assert (words, said["ask"]["subject"]) == (["new"], "git push")


async def until_gone(pid: int) -> None:
    with trio.fail_after(30):
        while is_alive(pid):  # noqa: ASYNC110  (a process)
            await trio.sleep(0.005)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_without_a_wait_it_is_said_that_nobody_is_told(place: Place) -> None:
    files = place.files('command = ["bin/ring"]', wait=0)
    async with running_daemon(place.folder, files) as daemon, daemon.administrator() as admin:
        said = await warned(admin, "while [ask] wait is 0")

    assert said.count("\n") == 0


async def test_a_plain_daemon_does_not_load_it(tmp_path: Path) -> None:
    config = '[[source]]\npath = "guards.py"\n[ask]\nwait = 300\n'
    async with running_daemon(tmp_path, {"hooks.toml": config, "guards.py": GUARD}) as daemon, asking(daemon):
        assert [product.loaded for product in daemon.parts.products] == [None, None]


# -- the desktop ------------------------------------------------------------------------------------------------------


async def test_hostile_text_is_no_option_no_markup_and_no_escape(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put("bin/notify-send")
    monkeypatch.setenv("PATH", f"{place.folder}/bin")
    command = "--hint=x\n\x1b]2;x\x07<b>&\\033" + "y" * 1000
    async with running_daemon(place.folder, place.files("desktop = true")) as daemon, asking(daemon, command) as admin:
        words = (await place.heard())[0].split("\0")
        await warned(admin)

    options, (title, body) = words[: words.index("--")], words[words.index("--") + 1 :]
    assert options == ["--app-name=hooklatch", "--urgency=critical"]
    assert title == "An ask waits"
    first, reason, answer, end = body.split("\n")
    # As GLib's g_strcompress reads it: a pair of backslashes is one.
    assert first.replace("\\\\", "\\").startswith(r"--hint=x\n\x1b]2;x\x07&lt;b&gt;&amp;\033yyy")
    assert first.count("\\") % 2 == 0
    assert len(first) < 300
    assert (reason, answer, end) == ("is that wise?", "hooklatch asks --follow", "")


async def test_on_macos_the_texts_are_arguments_of_the_script(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    program = place.put("bin/osascript")
    monkeypatch.setattr(notifications, "IS_MAC", True)
    monkeypatch.setattr(notifications, "OSASCRIPT", str(program))
    monkeypatch.setattr(system, "make_bounded_file", partial(PortableSystem.make_bounded_file, system))
    command = '-e "\nend run" \x1b & do shell script "touch /tmp/x"'
    async with running_daemon(place.folder, place.files("desktop = true")) as daemon, asking(daemon, command) as admin:
        words = (await place.heard())[0].split("\0")
        await warned(admin)

    script, (title, body) = words[: words.index("--")], words[words.index("--") + 1 :]
    assert script == [word for line in notifications.SHOW for word in ("-e", line)]
    assert title == "An ask waits"
    assert body.startswith('-e "\\nend run" \\x1b & do shell script "touch /tmp/x"\n')


# -- a webhook --------------------------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """A web server that keeps what was posted, and answers as its paths say."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.posted: list[tuple[str, dict[str, str], bytes]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, dict(self.headers), body))
        match self.path.partition("?")[0]:
            case "/hang":
                self.rfile.read()  # until the client is gone
            case "/drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not self.server.over.wait(0.05):
                    self.wfile.write(b"X: y\r\n")
            case "/cut":
                self.close_connection = True
            case "/redirect":
                self.send_response(307)
                self.send_header("Location", f"{self.server.url}/elsewhere")
                self.end_headers()
            case path:
                self.send_response(500 if path == "/fail" else 204)
                self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@contextmanager
def serving(wrap: Callable[[Server], None] = lambda server: None) -> Generator[Server]:
    server = Server()
    wrap(server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


async def until_posted(server: Server, count: int = 1) -> None:
    with trio.fail_after(30):
        while len(server.posted) < count:  # noqa: ASYNC110  (another thread)
            await trio.sleep(0.005)


async def test_a_webhook_gets_the_ask(place: Place) -> None:
    with serving() as server:
        line = f'webhook = "{server.url}/asks?key=k"'
        async with asked(place, line, commands=("echo `x` <!channel>",)) as admin:
            await until_posted(server)
            await warned(admin)
            (ask,) = (await admin.call("asks"))["asks"]

    ((path, headers, body),) = server.posted
    assert (path, headers["Content-Type"]) == ("/asks?key=k", "application/json")
    assert json.loads(body)["ask"] == ask
    assert json.loads(body)["text"].startswith("An ask waits: `echo 'x' &lt;!channel&gt;` because")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/fail", "webhook failed: exit code 1: the server answered 500"),
        ("/redirect", "webhook failed: exit code 1: the server answered 307, and a redirect is not followed"),
        ("/cut", "webhook failed: exit code 1: no answer: RemoteDisconnected"),
        ("/hang", "webhook failed: it took longer than 1 s, and was killed"),
        ("/drip", "webhook failed: it took longer than 1 s, and was killed"),
    ],
)
async def test_a_webhook_that_fails_is_a_warning_and_the_ask_goes_on(tmp_path: Path, path: str, text: str) -> None:
    seconds = 1 if path in ("/hang", "/drip") else 30
    with serving() as server:
        lines = (f'webhook = "{server.url}{path}"', f"timeout = {seconds}")
        async with running_daemon(tmp_path, Place(tmp_path).files(*lines)) as daemon, asking(daemon) as admin:
            await warned(admin, text)
            (ask,) = (await admin.call("asks"))["asks"]
            await admin.call("answer_ask", id=ask["id"], verdict="allow", reason="yes", by="tom")
            assert [path for path, _, _ in server.posted] == [path]


async def test_a_webhook_over_tls_needs_a_certificate_that_is_trusted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(place.folder)
    certificate, key = authority.sign("hooks", "localhost")

    def wrap(server: Server) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)

    with serving(wrap) as server:
        files = place.files(f'webhook = "https://localhost:{server.server_address[1]}/asks"')
        async with running_daemon(place.folder, files) as daemon, asking(daemon) as admin:
            await warned(admin, "webhook failed: exit code 1: no answer: ")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        async with running_daemon(place.folder, files) as daemon, asking(daemon):
            await until_posted(server)

    assert len(server.posted) == 1


# -- the table --------------------------------------------------------------------------------------------------------


@table(
    ("line", "text"),
    [
        ('webhook = "http://chat.example/x"', "webhook must begin with https://: what is asked leaves this machine"),
        ('webhook = "https://me:word@chat.example"', "webhook must be a URL without a user, a password and a fragment"),
        ('webhook = "file:///etc/passwd"', "webhook must be a URL such as https://"),
        ('webhook = "https://chat.example/a b"', "webhook must be a URL such as https://"),
        ('webhook = "https://[x"', "webhook is not a URL: "),
        ('webhook = "https://chat.example:99999"', "webhook is not a URL: "),
        ('command = "ring"', "is a program and its arguments, as a list of texts, not 'ring'"),
        ('command = [""]', "command"),
        ("timeout = 0", "timeout"),
        ("desk = true", "did you mean 'desktop'?"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(line: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config("/c/hooks.toml", f"[ask]\nwait = 60\n\n[ask.notify]\n{line}\n".encode())

    assert text in str(caught.value)
    assert str(caught.value).startswith(("/c/hooks.toml:5: ", "/c/hooks.toml:4: "))


@table("text", ["[ask]\nnotify = true\n", '"ask.notify" = {}\n', "[[ask.notify]]\n"])
def test_a_table_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_config("/c/hooks.toml", text.encode())


def test_a_path_of_a_command_is_relative_to_the_file() -> None:
    def command(first: str) -> object:
        settings = read_config("/c/hooks.toml", f'[ask.notify]\ncommand = ["{first}", "./x"]\n'.encode()).settings
        assert settings.notify is not None
        return settings.notify["command"]

    assert command("bin/ring") == ["/c/bin/ring", "./x"]
    assert command("ring") == ["ring", "./x"]

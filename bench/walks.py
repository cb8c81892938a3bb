"""How much source there is, and how much of it five requests to the daemon walk through.

The daemon runs in a process of its own under `sys.setprofile`, in all threads, and is asked over its sockets in plain
JSON lines.  Each request is made several times after one that warms up; the run with the fewest calls is shown, since
what else the daemon does by the clock (syncing the record) only adds some.  Its watch of files is held.  A `run=`
registration names a file that has changed, so a worker imports it anew; a reload finds one file changed.

calls      our own functions that are entered, from the request until every task of the daemon waits again; a coroutine
           counts once, however often it waits, and a comprehension belongs to the function around it
files      distinct files that hold these functions
rooms      changes of room: each call, return or wait after which our own code goes on in a file of another folder;
           counted for each thread by itself
parts      the same, where only `core`, `service`, `client` ... and `hooklatch_worker` count as folders
stacked    the most coroutines of our own that wait for one another in one task

Bad would be: any of these numbers, or of those of the source, higher than before.

Run: python bench/walks.py [--quick] [--tree CHECKOUT]; with --tree that checkout is walked too, and every number
reads "there -> here".
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import msgspec
import trio
import trio.testing

from machine import ROOT, print_machine, save

ROUNDS, QUICK_ROUNDS = 10, 4  # of one alone, a worker that is started beside it would be a part
SOURCES = ("supervisor", "workers")
DAEMONS = ("hooklatch.service.daemon", "hooklatch.service.daemon")  # where it stands, and where it stood
PARTS_OF = {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}
COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
RESUMABLE = COROUTINE | inspect.CO_GENERATOR
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
GUARD = """
from hooklatch import hook

@hook("{event}")
def guard(event):
    return None
"""


class Size(msgspec.Struct):
    """What there is to read."""

    lines: int = 0
    code_lines: int = 0
    files: int = 0
    classes: int = 0
    functions: int = 0
    rooms: int = 0


class Walk(msgspec.Struct):
    """One trip: how long, and `way`, the functions in the order in which they were entered."""

    calls: int = 0
    files: int = 0
    rooms: int = 0
    parts: int = 0
    stacked: int = 0
    way: list[str] = []


class Tree(msgspec.Struct):
    """What was found in one checkout."""

    size: Size
    walks: dict[str, Walk]


def size_of(root: Path) -> Size:
    """Return the size of the source below the two roots of a checkout."""
    size, folders = Size(), set[Path]()
    for path in sorted(path for source in SOURCES for path in (root / source).rglob("*.py")):
        text = path.read_text()
        nodes = list(ast.walk(ast.parse(text)))
        size.lines += len(text.splitlines())
        size.code_lines += len(code_lines(path, nodes))
        size.files += 1
        size.classes += sum(isinstance(node, ast.ClassDef) for node in nodes)
        size.functions += sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes)
        folders.add(path.parent)
    size.rooms = len(folders)
    return size


def code_lines(path: Path, nodes: list[ast.AST]) -> set[int]:
    """Return the lines that hold more than a comment or a docstring."""
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in LAYOUT]
    lines = {line for token in tokens[1:] for line in range(token.start[0], token.end[0] + 1)}  # the first is ENCODING
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


class Recorder:
    """Counts what runs between `start` and `stop`; its `profile` stands in all threads from the beginning."""

    def __init__(self, root: Path) -> None:
        self._sources = [f"{root / source}{os.sep}" for source in SOURCES]
        self._names: dict[CodeType, str | None] = {}
        self._is_on = False
        self.start()
        self._is_on = False

    def start(self) -> None:
        self._walk = Walk()
        self._entered: list[str] = []
        self._seen: set[FrameType] = set()  # kept, so that no other frame gets the identity of one of them
        self._here: dict[int, str] = {}
        self._is_on = True

    def stop(self) -> Walk:
        self._is_on = False
        way = [*self._entered]
        walk = msgspec.structs.replace(
            self._walk, calls=len(way), files=len({name.partition(" ")[0] for name in way}), way=way
        )
        self._seen.clear()
        return walk

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        if not self._is_on or event not in ("call", "return"):
            return
        own = self._name(frame.f_code)
        if own is None:
            return
        if event == "call":
            self._stand_in(own)
            self._enter(frame, own)
        elif (caller := next((name for _, name in self._own_frames(frame.f_back)), None)) is not None:
            self._stand_in(caller)

    def _enter(self, frame: FrameType, name: str) -> None:
        if frame in self._seen:
            return
        if frame.f_code.co_flags & RESUMABLE:
            self._seen.add(frame)
        self._entered.append(name)
        stacked = sum(bool(one.f_code.co_flags & COROUTINE) for one, _ in self._own_frames(frame))
        self._walk.stacked = max(self._walk.stacked, stacked)

    def _stand_in(self, name: str) -> None:
        # `start` may put a new dictionary in place meanwhile; an error here would end the profile of this thread.
        thread, there = threading.get_ident(), name.partition(" ")[0]
        here = self._here.get(thread)
        self._here[thread] = there
        if here is not None:
            self._walk.rooms += os.path.dirname(here) != os.path.dirname(there)
            self._walk.parts += part_of(here) != part_of(there)

    def _own_frames(self, frame: FrameType | None) -> Iterator[tuple[FrameType, str]]:
        while frame is not None:
            if (name := self._name(frame.f_code)) is not None:
                yield frame, name
            frame = frame.f_back

    def _name(self, code: CodeType) -> str | None:
        """Return `file function`, or None for what is not ours or no function."""
        try:
            return self._names[code]
        except KeyError:
            below = [code.co_filename.removeprefix(one) for one in self._sources if code.co_filename.startswith(one)]
            is_ours = bool(below) and code.co_name not in PARTS_OF
            return self._names.setdefault(code, f"{below[0]} {code.co_qualname}" if is_ours else None)


def part_of(path: str) -> str:
    """Return the part that a file belongs to: `hooklatch/core`, or `hooklatch_worker`."""
    return "/".join(path.split("/")[: 1 if path.startswith("hooklatch_worker/") else 2])


class Client:
    """A connection that sends one JSON line at a time and reads lines until its answer comes."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = b""

    async def call(self, method: str, /, **params: object) -> Any:
        line = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        await self._stream.send_all(line + b"\n")
        while True:
            while b"\n" not in self._rest:
                received = await self._stream.receive_some(2**20)
                if not received:
                    raise ConnectionError(f"{method}: the daemon closed the connection")
                self._rest += received
            answer, _, self._rest = self._rest.partition(b"\n")
            message = msgspec.json.decode(answer)
            if "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            if message.get("id") == 1:
                return message["result"]


def lay_out(folder: str) -> None:
    Path(folder, "guards.py").write_text(GUARD.format(event="pre_tool_use"))
    Path(folder, "own.py").write_text(GUARD.format(event="stop"))
    Path(folder, "hooks.toml").write_text('[[source]]\npath = "guards.py"\n')


async def walk_all(root: Path, rounds: int, recorder: Recorder, folder: str) -> dict[str, Walk]:
    """Run the daemon of the checkout that was imported, and make each trip."""
    daemon = daemon_of(root)
    hold_the_file_watch()
    options_class = getattr(daemon, "DaemonOptions", None) or daemon.Options  # as older checkouts call them
    open_daemon = getattr(daemon, "open_daemon", None) or daemon.serve
    options = options_class(f"{folder}/hooks.toml", f"{folder}/run", f"{folder}/state", owns_process=False)
    async with open_daemon(options):
        agent = Client(await trio.open_unix_socket(f"{folder}/run/agent.sock"))
        admin = Client(await trio.open_unix_socket(f"{folder}/run/admin.sock"))
        await agent.call("hello", protocol=1, session={"cwd": folder})
        await admin.call("hello", protocol=1)

        async def nothing() -> None:
            pass

        async def unregister() -> None:
            await agent.call("unregister", id="own")

        async def edit(source: str) -> None:
            with Path(folder, source).open("a") as file:  # noqa: ASYNC230  (before the trip, and of one line)
                file.write("#\n")

        payload = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
        served = {"id": "own", "event": "stop", "served": True}
        loaded = {"id": "own", "event": "stop", "run": "own.py:guard"}
        document = {
            "session_id": "walk", "transcript_path": f"{folder}/walk.jsonl", "cwd": folder,
            "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_use_id": "toolu_1", **payload,
        }  # fmt: skip
        # In the order in which the forwarder writes it.
        event = {"host": "claude-code", "event": "PreToolUse", "environ": {}, "budget": 60.0, "document": document}
        trips: dict[str, tuple[Trip, Trip, Trip]] = {
            "fire": (nothing, lambda: agent.call("fire", event="pre_tool_use", payload=payload), nothing),
            "register, served": (nothing, lambda: agent.call("register", hooks=[served]), unregister),
            "register, run=": (lambda: edit("own.py"), lambda: agent.call("register", hooks=[loaded]), unregister),
            "reload": (lambda: edit("guards.py"), lambda: admin.call("reload"), nothing),
            "host event": (nothing, lambda: agent.call("host", **event), nothing),
        }
        return {name: await walk(recorder, rounds, *trip) for name, trip in trips.items()}


Trip = Callable[[], Awaitable[Any]]


async def walk(recorder: Recorder, rounds: int, before: Trip, trip: Trip, after: Trip) -> Walk:
    """Return the trip with the fewest calls, the first left out."""
    walks: list[Walk] = []
    for _ in range(rounds + 1):
        await before()
        recorder.start()
        await trip()
        await trio.testing.wait_all_tasks_blocked()
        walks.append(recorder.stop())
        await after()
    return min(walks[1:], key=lambda one: one.calls)


def daemon_of(root: Path) -> Any:
    for name in DAEMONS:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        if not str(module.__file__).startswith(str(root)):
            sys.exit(f"{name} was imported from {module.__file__}, which is not below {root}")
        return module
    raise SystemExit(f"none of {', '.join(DAEMONS)} is in {root}")


def hold_the_file_watch() -> None:
    """Have the daemon not take by itself what a trip edits: its reload would run into the next trip."""
    watches = {"hooklatch.service.loading.watch", "hooklatch.service.loading.files", "hooklatch.service.files"}
    for name in watches & sys.modules.keys():
        vars(sys.modules[name])["SETTLE"] = 3600.0


def walk_here(root: Path, rounds: int) -> Tree:
    recorder = Recorder(root)
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    with tempfile.TemporaryDirectory() as folder:
        lay_out(folder)
        walks = trio.run(walk_all, root, rounds, recorder, folder)
    sys.setprofile(None)
    return Tree(size_of(root), walks)


def walk_in(root: Path, rounds: int) -> Tree:
    """Walk through a checkout in a process that imports it and no other."""
    path = os.pathsep.join(str(root / source) for source in SOURCES)
    command = [sys.executable, __file__, "--here", str(root), *(["--quick"] if rounds == QUICK_ROUNDS else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}, check=False)
    if done.returncode:
        sys.exit(f"{root}: the walk ended with {done.returncode}; its messages are above")
    return msgspec.json.decode(done.stdout, type=Tree)


def show(trees: list[Tree]) -> None:
    print(f"\n{'source':<20}{'':>20}")
    for field in Size.__struct_fields__:
        print(f"{field.replace('_', ' '):<20}{change([getattr(tree.size, field) for tree in trees]):>20}")
    numbers = [field for field in Walk.__struct_fields__ if field != "way"]
    print(f"\n{'trip':<20}" + "".join(f"{field:>16}" for field in numbers))
    for name in trees[0].walks:
        cells = [change([getattr(tree.walks[name], field) for tree in trees]) for field in numbers]
        print(f"{name:<20}" + "".join(f"{cell:>16}" for cell in cells))


def change(numbers: list[int]) -> str:
    return " -> ".join(str(number) for number in numbers)


def main() -> int:
    parser = argparse.ArgumentParser(description="Count the source, and how much of it five requests walk through.")
    parser.add_argument("--quick", action="store_true", help="make each request once after the one that warms up")
    parser.add_argument("--tree", type=Path, help="another checkout to compare with")
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    if options.here:
        sys.stdout.buffer.write(msgspec.json.encode(walk_here(options.here.resolve(), rounds)))
        return 0
    machine = print_machine()
    roots = [*([options.tree.resolve()] if options.tree else []), ROOT]
    trees = [walk_in(root, rounds) for root in roots]
    show(trees)
    save(
        "walks_quick" if options.quick else "walks",
        {"machine": machine, "trees": {str(root): tree for root, tree in zip(roots, trees, strict=True)}},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

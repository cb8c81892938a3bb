"""The environments of sources: found, made in the background, shared, and given up.  Knows no source and no hook.

    named          an interpreter that a file names: looked at whenever it may have changed
    made           for what a block requires; by its digest in the daemon's directory

    acquire ─▶ its zygote runs ─▶ … ─▶ release ─▶ nobody uses it any more ─▶ its zygote ends

    wanted ─▶ being made ─▶ ready                          a changed environment is another one: whoever uses the one
                 │  ▲                                       before keeps it, with its own zygote, until all have moved
                 ▼  │ later, or when told
               failed

Nothing is made while somebody waits for it: `acquire` says that it is being made, and `changed` is called at its end.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec
import trio

from hooklatch.environments.commands import ProgramOutput
from hooklatch.environments.interpreter import EnvironmentFaultError, Mark, examine_interpreter, stamp_interpreter_file
from hooklatch.environments.making import EnvironmentRecipe, find_python, make_environment
from hooklatch.environments.requirements import Requirements
from hooklatch.environments.store import (
    READY,
    is_ready,
    lock_environment,
    lock_if_ready,
    make_root,
    note_environment_use,
    remove_unused_environments,
    wait_for_environment_lock,
)
from hooklatch.errors import describe_error, locate_error
from hooklatch.processes.guardian import Interpreter
from hooklatch.processes.life import ForkError
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.processes.zygote import ZygoteClient, run_zygote
from hooklatch_worker.sandbox.safety import UnsafeFileError

__all__ = ["BeingMadeError", "Environment", "Environments", "EnvironmentStatus"]

logger = logging.getLogger("hooklatch.environments")
MOST = 16  # at once, each with a zygote of some 10 MiB
TOO_MANY = "{} environments are in use already; let sources share some"
AT_ONCE = 2  # that are made
NAMED_WAIT = 10.0  # seconds until an interpreter that could not be used is looked at again
FIRST_WAIT, LAST_WAIT = 30.0, 1800.0  # seconds until what failed is tried again
UNWANTED = 30.0  # seconds; a source whose environment has failed asks for it every 2 s
FIRST_TIDY, TIDY_INTERVAL = 600.0, 6 * 3600.0  # seconds; not at the start, when nothing is in use yet


class BeingMadeError(EnvironmentFaultError):
    """An environment is not there yet."""


class EnvironmentStatus(msgspec.Struct, frozen=True):
    """What is shown of an environment."""

    state: Literal["in use", "being made", "failed"]
    python: str
    version: str = ""
    requires: tuple[str, ...] = ()
    users: int = 0
    seconds: float = 0.0  # since its making began
    said: str = ""  # by the installer, its last line; or why it failed
    zygote: int | None = None
    restarts: int = 0


class Environment:
    """An environment in use, with its zygote."""

    def __init__(
        self, interpreter: Interpreter, marks: dict[str, Mark], zygote: ZygoteClient, lock: int | None
    ) -> None:
        self.interpreter = interpreter
        self.marks = marks
        self.zygote = zygote
        self.lock = lock
        self.users = 0
        self.requires: tuple[str, ...] = ()
        self.name = ""
        self.is_doubted = False  # it may have changed in a way that leaves no mark

    def watch(self, path: str) -> None:
        """Count a change of one more file as a change of this environment."""
        self.marks.setdefault(path, stamp_interpreter_file(path))

    @property
    def is_current(self) -> bool:
        """Return whether nothing was written to it since it was looked at.

        Raises:
            TimeoutError: a disk of it is late.
        """
        return not self.is_doubted and all(
            stamp_interpreter_file(path) == mark for path, mark in list(self.marks.items())
        )


class EnvironmentBuild:
    """An environment that is being made, or could not be."""

    def __init__(self, recipe: EnvironmentRecipe) -> None:
        self.recipe = recipe
        self.seen = ProgramOutput()
        self.began = trio.current_time()
        self.failures = 0
        self.fault: str | None = None
        self.not_before = 0.0
        self.is_running = False
        self.wanted_at = self.began


class Environments:
    """Finds, makes, shares and gives up environments, those that are made in `folder`."""

    def __init__(self, folder: str, *, owns_process: bool) -> None:
        self.folder = folder
        self.supervisor = Supervisor("environments")
        self.changed: Callable[[], None] = lambda: None  # told whenever a making has ended
        self._owns_process = owns_process
        self._used: dict[str, Environment] = {}  # by name: what makes it another one is part of that
        self._makings: dict[str, EnvironmentBuild] = {}
        # Of interpreters that are named, and until when that is believed.
        self._faults: dict[str, tuple[str, float]] = {}
        self._fresh: set[str] = set()  # made, and not used yet
        self._count = 0  # of environments that were opened
        self._room = trio.CapacityLimiter(AT_ONCE)
        self._turn = trio.Lock()
        self._idle = trio.Event()
        self._idle.set()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the zygotes of environments until cancelled."""
        async with self.supervisor.open():
            self.supervisor.spawn("tidying", self._keep_tidy)  # its failure must end no zygote
            task_status.started()
            await trio.sleep_forever()

    async def _keep_tidy(self) -> None:
        """Remove the environments that nobody has used for long, from time to time."""
        wait = FIRST_TIDY
        while True:
            await trio.sleep(wait)
            wait = TIDY_INTERVAL
            try:
                for one in self._used.values():
                    if one.lock is not None:
                        with suppress(FileNotFoundError):  # somebody has removed it
                            note_environment_use(one.interpreter.prefix)
                await trio.to_thread.run_sync(remove_unused_environments, self.folder)
            except OSError as error:
                logger.warning("environments are not tidied: %s", describe_error(error))

    def roots(self) -> frozenset[int]:
        """Return the processes below which everything that runs hooks in these environments is."""
        return frozenset[int]().union(*(one.zygote.roots() for one in self._used.values()))

    @property
    def is_making(self) -> bool:
        return not self._idle.is_set()

    async def settle(self) -> None:
        """Wait until nothing is being made."""
        await self._idle.wait()

    async def named(self, python: str) -> Environment:
        """Return the environment of an interpreter, with its zygote running; `release` it.

        Raises:
            EnvironmentFaultError: it must not be used, or cannot be.
        """
        async with self._turn:
            if (one := await self._current(python)) is not None:
                one.users += 1
                return one
            text, until = self._faults.get(python, ("", 0.0))
            if trio.current_time() < until:
                raise EnvironmentFaultError(text)
            try:
                return await self._open(python, lock=None)
            except EnvironmentFaultError as error:
                self._faults[python] = str(error), trio.current_time() + NAMED_WAIT
                raise

    async def made(self, requirements: Requirements, *, may_make: bool) -> Environment:
        """Return the environment for what is required, with its zygote running; `release` it.

        Raises:
            BeingMadeError: it is not there yet; it is being made from now on, if it `may` be.
            EnvironmentFaultError: it could not be made, or cannot be used.
        """
        async with self._turn:
            python, version, fits = await find_python(requirements)
            recipe = EnvironmentRecipe(requirements, python, version, fits)
            key = recipe.key
            folder = os.path.join(self.folder, key)
            if (making := self._makings.get(key)) is not None:
                self._wait_or_fail(making, may_make=may_make)
            lock = await trio.to_thread.run_sync(lock_if_ready, folder)
            if lock is None:
                if not may_make:
                    raise EnvironmentFaultError(
                        "it requires packages, and nobody has made its environment: that is done for files that the"
                        " operator or a trusted project declares; declare it as a [[source]]"
                    )
                self._begin(EnvironmentBuild(recipe), key)
                raise BeingMadeError(describe_making(recipe))
            return await self._reused(recipe, folder, lock)

    async def _reused(self, recipe: EnvironmentRecipe, folder: str, lock: int) -> Environment:
        """Return an environment that is there; one that does not work any more is made anew."""
        python = os.path.join(folder, "bin", "python")
        try:
            current = await self._current(python)
        except BaseException:
            os.close(lock)
            raise
        if current is not None:
            os.close(lock)
            current.users += 1
            return current
        if len(self._used) >= MOST:  # which says nothing of this one
            os.close(lock)
            raise EnvironmentFaultError(TOO_MANY.format(MOST))
        try:
            one = await self._open(python, lock=lock, requires=recipe.requirements.dependencies)
            self._fresh.discard(recipe.key)
            return one
        except EnvironmentFaultError as error:
            if not self._spoil(folder, python):
                raise
            if recipe.key in self._fresh:  # made here just now: to make it again at once would give the same
                self._fresh.discard(recipe.key)
                self._failed(self._makings.setdefault(recipe.key, EnvironmentBuild(recipe)), error)
                raise
            logger.warning("an environment is made anew: %s", error, extra={"path": folder})
            self._begin(EnvironmentBuild(recipe), recipe.key)
            raise BeingMadeError(describe_making(recipe)) from None

    async def _current(self, python: str) -> Environment | None:
        """Return the environment of an interpreter that is in use and as it was, from its marks."""
        for one in list(self._used.values()):
            if one.interpreter.python == python:
                try:
                    is_current = await trio.to_thread.run_sync(
                        partial(getattr, one, "is_current"), abandon_on_cancel=True
                    )
                except TimeoutError:
                    continue
                if is_current and one.name in self._used:  # else it was given up meanwhile
                    return one
        return None

    def _spoil(self, folder: str, python: str) -> bool:
        """Have an environment be made anew, unless another process uses it; return whether it is to be."""
        try:
            lock = lock_environment(folder, fcntl.LOCK_EX)
        except OSError:  # who knows who uses it
            return False
        if lock is None and all(one.interpreter.python != python for one in self._used.values()):
            return False
        try:
            with suppress(OSError):
                os.unlink(os.path.join(folder, READY))
        finally:
            if lock is not None:
                os.close(lock)
        return True

    async def _open(self, python: str, *, lock: int | None, requires: tuple[str, ...] = ()) -> Environment:
        """Look at an interpreter and start its zygote."""
        try:
            if len(self._used) >= MOST:
                raise EnvironmentFaultError(TOO_MANY.format(MOST))
            interpreter, marks = await examine_interpreter(python, is_ours=lock is not None)
            zygote = ZygoteClient(owns_process=self._owns_process, interpreter=interpreter)
            environment = Environment(interpreter, marks, zygote, lock)
            environment.requires, environment.users = requires, 1
            self._count += 1
            environment.name = f"{python} (look {self._count})"
            try:
                await self.supervisor.start(self._spec(environment))
            except (ForkError, OSError) as error:
                raise EnvironmentFaultError(f"{python} does not run as a zygote: {locate_error(error)}") from None
        except BaseException:
            if lock is not None:
                os.close(lock)
            raise
        self._used[environment.name] = environment
        return environment

    def _spec(self, environment: Environment) -> ChildSpec:
        supervisor = Supervisor("environment")

        async def run(task_status: trio.TaskStatus[None]) -> None:
            try:
                async with run_zygote(environment.zygote, supervisor):
                    task_status.started()
                    await trio.sleep_forever()
            finally:
                if environment.lock is not None:
                    os.close(environment.lock)
                    environment.lock = None

        return ChildSpec(environment.name, run, reports_start=True, below=supervisor)

    def release(self, environment: Environment) -> None:
        """Give up an environment; when nobody uses it any more, its zygote ends."""
        environment.users -= 1
        if environment.users == 0:
            del self._used[environment.name]
            self.supervisor.end(environment.name)

    # -- making ------------------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Have what failed be tried again when it is wanted next, and interpreters that files name looked at again."""
        for one in self._used.values():
            one.is_doubted = one.lock is None
        for making in self._makings.values():
            making.not_before = 0.0
        self._faults.clear()

    def _wait_or_fail(self, making: EnvironmentBuild, *, may_make: bool) -> None:
        making.wanted_at = trio.current_time()
        if making.fault is None:
            raise BeingMadeError(describe_making(making.recipe))
        if may_make and not making.is_running and trio.current_time() >= making.not_before:
            self._begin(making, making.recipe.key)
        raise EnvironmentFaultError(making.fault)  # until it is known to be there, what was wrong stays what is said

    def _begin(self, making: EnvironmentBuild, key: str) -> None:
        self._makings[key] = making
        making.is_running, making.began = True, trio.current_time()
        if self._idle.is_set():  # else somebody may wait for that one
            self._idle = trio.Event()
        if not self.supervisor.spawn(f"making {key}", self._make, making, key):
            self._ended(making, EnvironmentFaultError("the daemon ends"))

    async def _make(self, making: EnvironmentBuild, key: str) -> None:
        try:
            async with self._room:
                await self._make_held(making, os.path.join(self.folder, key))
            logger.info("environment made", extra={"path": os.path.join(self.folder, key)})
            self._fresh.add(key)
            del self._makings[key]
        except (EnvironmentFaultError, UnsafeFileError, OSError) as error:
            self._failed(making, error)
        except Exception as error:
            self._failed(making, error)
            raise
        finally:
            self._ended(making)

    def _ended(self, making: EnvironmentBuild, error: Exception | None = None) -> None:
        if error is not None:
            self._failed(making, error)
        making.is_running = False
        if not any(one.is_running for one in self._makings.values()):
            self._idle.set()
        self.changed()

    def _failed(self, making: EnvironmentBuild, error: Exception) -> None:
        making.failures += 1
        making.not_before = trio.current_time() + min(FIRST_WAIT * 2 ** (making.failures - 1), LAST_WAIT)
        making.fault = f"its environment could not be made: {describe_error(error)}"
        logger.error(
            "environment not made: %s",
            describe_error(error),
            extra={"path": os.path.join(self.folder, making.recipe.key)},
        )

    async def _make_held(self, making: EnvironmentBuild, folder: str) -> None:
        await trio.to_thread.run_sync(make_root, self.folder)
        using = await wait_for_environment_lock(folder, fcntl.LOCK_SH)
        try:
            # Not the lock of those who use it: who removes the directory by hand ends none of them, and one of them may
            # wait for this very making.
            lock = await wait_for_environment_lock(folder, fcntl.LOCK_EX, "making")
            try:
                if not is_ready(folder):  # another daemon of this user may have made it
                    await make_environment(making.recipe, folder, making.seen)
            finally:
                os.close(lock)
        finally:
            os.close(using)

    def status(self) -> list[EnvironmentStatus]:
        """Show each environment that is in use, being made, or failed."""
        now = trio.current_time()
        found = [
            EnvironmentStatus(
                "in use", one.interpreter.python, one.interpreter.version, one.requires, one.users,
                zygote=one.zygote.pid, restarts=one.zygote.restarts,
            )
            for one in self._used.values()
        ]  # fmt: skip
        for making in self._makings.values():
            if not making.is_running and now - making.wanted_at > UNWANTED:
                continue  # its source requires something else by now, or is gone
            recipe = making.recipe
            said = making.fault or find_last_line(making.seen.output())
            seconds = round(now - making.began, 1) if making.is_running else 0.0
            found.append(
                EnvironmentStatus(
                    "being made" if making.is_running else "failed",
                    recipe.python,
                    recipe.version,
                    recipe.requirements.dependencies,
                    0,
                    seconds,
                    said,
                )
            )
        return found


def describe_making(recipe: EnvironmentRecipe) -> str:
    packages = ", ".join(recipe.requirements.dependencies) or "no packages"
    return f"its environment is being made (Python {recipe.version}, {packages}); see: hooklatch status"


def find_last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""

"""The environments of sources: found, made in the background, shared, and released.  Knows no source and no hook.

    acquire_named     an interpreter that a file names: inspected again whenever it may have changed
    acquire_required  for the requirements of a block; by its digest in the daemon's directory

    acquire ─▶ its zygote runs ─▶ … ─▶ release ─▶ no source uses it any more ─▶ its zygote ends

    wanted ─▶ being made ─▶ ready                          a changed environment counts as another one: its users keep
                 │  ▲                                       it as it was, with its own zygote, until all have moved
                 ▼  │ later, or after `renew`
               failed

No caller waits while an environment is made: `acquire_required` raises BeingMadeError, and `changed` is called at the
end.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from hooklatch.environments import store
from hooklatch.environments.interpreter import (
    Mark,
    ProgramOutput,
    examine_interpreter,
    stamp_interpreter_file,
    take_last_lines,
)
from hooklatch.environments.making import EnvironmentRecipe, find_python, make_environment
from hooklatch.environments.requirements import add_lock_file, read_requirements
from hooklatch.errors import describe_error, locate_error
from hooklatch.processes.environment_slot import EnvironmentFaultError, EnvironmentProduct, Requirements
from hooklatch.processes.guardian import Interpreter
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.processes.zygote import ForkError, ZygoteClient, run_zygote
from hooklatch.threads import in_thread
from hooklatch_worker.sandbox.safety import UnsafeFileError

if TYPE_CHECKING:
    from hooklatch.core.status_answers import EnvironmentStatus

__all__ = ["PRODUCT", "BeingMadeError", "SourceEnvironment", "SourceEnvironments"]

logger = logging.getLogger("hooklatch.environments")
MAX_ENVIRONMENTS = 16  # in use at once, each with a zygote of some 10 MiB
TOO_MANY = "{} environments are in use already; let sources share some"
MAX_BUILDS = 2  # at once
NAMED_WAIT = 10.0  # seconds until an interpreter that could not be used is inspected again
FIRST_WAIT, LAST_WAIT = 30.0, 1800.0  # seconds until a failed build is tried again
UNWANTED_AFTER = 30.0  # seconds; a source whose environment has failed asks for it every 2 s


class BeingMadeError(EnvironmentFaultError):
    """An environment is not there yet."""


class SourceEnvironment:
    """An environment in use, with its zygote, and the lock that keeps other processes from removing it."""

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
        self.is_doubted = False  # it may have changed in a way that no mark shows

    def watch(self, path: str) -> None:
        """Count a change of this file as a change of the environment, too."""
        self.marks.setdefault(path, stamp_interpreter_file(path))

    @property
    def is_current(self) -> bool:
        """Return whether nothing was written to it since it was inspected.

        Raises:
            TimeoutError: a disk of it is late.
        """
        return not self.is_doubted and all(
            stamp_interpreter_file(path) == mark for path, mark in list(self.marks.items())
        )


class EnvironmentBuild:
    """An environment that is being made, or could not be made."""

    def __init__(self, recipe: EnvironmentRecipe) -> None:
        self.recipe = recipe
        self.output = ProgramOutput()
        self.started = trio.current_time()
        self.failures = 0
        self.fault: str | None = None
        self.retry_at = 0.0
        self.is_running = False
        self.last_wanted = self.started


class SourceEnvironments:
    """The environments in use and the builds of new ones, which are made in `folder`."""

    def __init__(self, folder: str, supervisor: Supervisor, changed: Callable[[], None], owns_process: bool) -> None:
        self.folder = folder
        self.supervisor = supervisor
        self._changed = changed
        self._owns_process = owns_process
        self._environments: dict[str, SourceEnvironment] = {}  # by name, which differs for each inspection
        self._builds: dict[str, EnvironmentBuild] = {}
        # By the path of an interpreter that a file names: its fault, and until when it is not inspected again.
        self._faults: dict[str, tuple[str, float]] = {}
        self._new_keys: set[str] = set()  # of environments that were made and not used yet
        self._count = 0  # of environments that were opened
        self._build_limiter = trio.CapacityLimiter(MAX_BUILDS)
        # One acquisition at a time: two sources that ask at once must share one zygote.
        self._acquire_lock = trio.Lock()
        self._idle = trio.Event()
        self._idle.set()

    async def remove_unused(self) -> None:
        """Remove the environments that have long been unused."""
        try:
            for environment in self._environments.values():
                if environment.lock is not None:
                    with suppress(FileNotFoundError):  # removed by hand
                        store.note_environment_use(environment.interpreter.prefix)
            await in_thread(store.remove_unused_environments, self.folder)
        except OSError as error:
            logger.warning("unused environments are not removed: %s", describe_error(error))

    def roots(self) -> frozenset[int]:
        """Return the processes whose descendants run all hooks of these environments."""
        return frozenset[int]().union(*(environment.zygote.roots() for environment in self._environments.values()))

    @property
    def is_making(self) -> bool:
        return not self._idle.is_set()

    async def settle(self) -> None:
        """Wait until nothing is being made."""
        await self._idle.wait()

    async def acquire_named(self, python: str) -> SourceEnvironment:
        """Return the environment of an interpreter, with its zygote running.  The caller must `release` it."""
        async with self._acquire_lock:
            if (environment := await self._find_current(python)) is not None:
                environment.users += 1
                return environment
            text, until = self._faults.get(python, ("", 0.0))
            if trio.current_time() < until:
                raise EnvironmentFaultError(text)
            try:
                return await self._open(python, lock=None)
            except EnvironmentFaultError as error:
                self._faults[python] = str(error), trio.current_time() + NAMED_WAIT
                raise

    async def acquire_required(self, requirements: Requirements, *, may_make: bool) -> SourceEnvironment:
        """Return the environment for these requirements, with its zygote running.  The caller must `release` it.

        Raises:
            BeingMadeError: it is not there yet.  Its build has been started.
            EnvironmentFaultError: it is not there and `may_make` is false, or it could not be made, or cannot be used.
        """
        async with self._acquire_lock:
            python, version, fits = await find_python(requirements)
            recipe = EnvironmentRecipe(requirements, python, version, fits)
            key = recipe.key
            folder = os.path.join(self.folder, key)
            if (build := self._builds.get(key)) is not None:
                self._wait_or_fail(build, may_make=may_make)
            lock = await in_thread(store.lock_if_ready, folder)
            if lock is None:
                if not may_make:
                    raise EnvironmentFaultError(
                        "it requires packages, and its environment has not been made: that is done only for files that"
                        " the operator or a trusted project declares; declare it as a [[source]]"
                    )
                self._start_build(EnvironmentBuild(recipe), key)
                raise BeingMadeError(describe_making(recipe))
            return await self._reuse(recipe, folder, lock)

    async def _reuse(self, recipe: EnvironmentRecipe, folder: str, lock: int) -> SourceEnvironment:
        """Return an environment that has been made.  If it does not work any more, start to make it anew."""
        python = os.path.join(folder, "bin", "python")
        try:
            current = await self._find_current(python)
        except BaseException:
            os.close(lock)
            raise
        if current is not None:
            os.close(lock)
            current.users += 1
            return current
        if len(self._environments) >= MAX_ENVIRONMENTS:  # no fault of this one: it is not made anew
            os.close(lock)
            raise EnvironmentFaultError(TOO_MANY.format(MAX_ENVIRONMENTS))
        try:
            environment = await self._open(python, lock=lock, requires=recipe.requirements.dependencies)
            self._new_keys.discard(recipe.key)
            return environment
        except EnvironmentFaultError as error:
            if not self._mark_unready(folder, python):
                raise
            if recipe.key in self._new_keys:  # made just now: made again, it would be the same
                self._new_keys.discard(recipe.key)
                self._note_failure(self._builds.setdefault(recipe.key, EnvironmentBuild(recipe)), error)
                raise
            logger.warning("an environment is made anew: %s", error, extra={"path": folder})
            self._start_build(EnvironmentBuild(recipe), recipe.key)
            raise BeingMadeError(describe_making(recipe)) from None

    async def _find_current(self, python: str) -> SourceEnvironment | None:
        """Return the environment of an interpreter if it is in use and its marks show no change."""
        for environment in list(self._environments.values()):
            if environment.interpreter.python == python:
                try:
                    is_current = await in_thread(partial(getattr, environment, "is_current"), abandon_on_cancel=True)
                except TimeoutError:
                    continue
                if is_current and environment.name in self._environments:  # else it was released during the look
                    return environment
        return None

    def _mark_unready(self, folder: str, python: str) -> bool:
        """Let an environment be made anew, unless another process uses it; return whether it will be."""
        try:
            lock = store.lock_environment(folder, fcntl.LOCK_EX)
        except OSError:  # its users are unknown
            return False
        used = {environment.interpreter.python for environment in self._environments.values()}
        if lock is None and python not in used:
            return False
        try:
            with suppress(OSError):
                os.unlink(os.path.join(folder, store.READY))
        finally:
            if lock is not None:
                os.close(lock)
        return True

    async def _open(self, python: str, *, lock: int | None, requires: tuple[str, ...] = ()) -> SourceEnvironment:
        try:
            if len(self._environments) >= MAX_ENVIRONMENTS:
                raise EnvironmentFaultError(TOO_MANY.format(MAX_ENVIRONMENTS))
            interpreter, marks = await examine_interpreter(python, is_ours=lock is not None)
            zygote = ZygoteClient(owns_process=self._owns_process, interpreter=interpreter)
            environment = SourceEnvironment(interpreter, marks, zygote, lock)
            environment.requires, environment.users = requires, 1
            self._count += 1
            environment.name = f"{python} (look {self._count})"
            try:
                await self.supervisor.start(self._child_spec(environment))
            except (ForkError, OSError) as error:
                raise EnvironmentFaultError(f"{python} does not run as a zygote: {locate_error(error)}") from None
        except BaseException:
            if lock is not None:
                os.close(lock)
            raise
        self._environments[environment.name] = environment
        return environment

    def _child_spec(self, environment: SourceEnvironment) -> ChildSpec:
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

    def release(self, environment: SourceEnvironment) -> None:
        """Give up an environment.  Its zygote ends with its last user."""
        environment.users -= 1
        if environment.users == 0:
            del self._environments[environment.name]
            self.supervisor.end(environment.name)

    # -- making ------------------------------------------------------------------------------------------------------

    def renew(self) -> None:
        """Let failed builds be tried again when they are wanted next, and named interpreters be inspected again."""
        for environment in self._environments.values():
            environment.is_doubted = environment.lock is None
        for build in self._builds.values():
            build.retry_at = 0.0
        self._faults.clear()

    def _wait_or_fail(self, build: EnvironmentBuild, *, may_make: bool) -> None:
        build.last_wanted = trio.current_time()
        if build.fault is None:
            raise BeingMadeError(describe_making(build.recipe))
        if may_make and not build.is_running and trio.current_time() >= build.retry_at:
            self._start_build(build, build.recipe.key)
        raise EnvironmentFaultError(build.fault)  # the old fault, until a new build has succeeded

    def _start_build(self, build: EnvironmentBuild, key: str) -> None:
        self._builds[key] = build
        build.is_running, build.started = True, trio.current_time()
        if self._idle.is_set():  # else a caller of `settle` may wait for the event that is there
            self._idle = trio.Event()
        if not self.supervisor.spawn(f"making {key}", self._run_build, build, key):
            self._finish_build(build, EnvironmentFaultError("the daemon ends"))

    async def _run_build(self, build: EnvironmentBuild, key: str) -> None:
        try:
            async with self._build_limiter:
                await self._make_locked(build, os.path.join(self.folder, key))
            logger.info("environment made", extra={"path": os.path.join(self.folder, key)})
            self._new_keys.add(key)
            del self._builds[key]
        except (EnvironmentFaultError, UnsafeFileError, OSError) as error:
            self._note_failure(build, error)
        except Exception as error:
            self._note_failure(build, error)
            raise
        finally:
            self._finish_build(build)

    def _finish_build(self, build: EnvironmentBuild, error: Exception | None = None) -> None:
        if error is not None:
            self._note_failure(build, error)
        build.is_running = False
        if not any(other_build.is_running for other_build in self._builds.values()):
            self._idle.set()
        self._changed()

    def _note_failure(self, build: EnvironmentBuild, error: Exception) -> None:
        build.failures += 1
        build.retry_at = trio.current_time() + min(FIRST_WAIT * 2 ** (build.failures - 1), LAST_WAIT)
        build.fault = f"its environment could not be made: {describe_error(error)}"
        where = {"path": os.path.join(self.folder, build.recipe.key)}
        logger.error("environment not made: %s", describe_error(error), extra=where)

    async def _make_locked(self, build: EnvironmentBuild, folder: str) -> None:
        await in_thread(store.make_root, self.folder)
        use_lock = await store.wait_for_environment_lock(folder, fcntl.LOCK_SH)
        try:
            # Not the lock that users hold: if the directory was removed by hand, they run on, and one of them may wait
            # for this very build.
            lock = await store.wait_for_environment_lock(folder, fcntl.LOCK_EX, "making")
            try:
                if not store.is_ready(folder):  # another daemon of this user may have made it
                    await make_environment(build.recipe, folder, build.output)
            finally:
                os.close(lock)
        finally:
            os.close(use_lock)

    def status(self) -> list[EnvironmentStatus]:
        """Return the state of each environment that is in use, being made, or failed."""
        now = trio.current_time()
        statuses: list[EnvironmentStatus] = [
            {
                "state": "in use", "python": environment.interpreter.python, "version": environment.interpreter.version,
                "requires": environment.requires, "users": environment.users, "seconds": 0.0, "said": "",
                "zygote": environment.zygote.pid, "restarts": environment.zygote.restarts,
            }
            for environment in self._environments.values()
        ]  # fmt: skip
        for build in self._builds.values():
            if not build.is_running and now - build.last_wanted > UNWANTED_AFTER:
                continue  # its source has other requirements by now, or is gone
            recipe = build.recipe
            text = build.fault or take_last_lines(build.output.output(), 1).strip()[:200]
            seconds = round(now - build.started, 1) if build.is_running else 0.0
            statuses.append({
                "state": "being made" if build.is_running else "failed", "python": recipe.python,
                "version": recipe.version, "requires": recipe.requirements.dependencies, "users": 0,
                "seconds": seconds, "said": text, "zygote": None, "restarts": 0,
            })  # fmt: skip
        return statuses


def describe_making(recipe: EnvironmentRecipe) -> str:
    packages = ", ".join(recipe.requirements.dependencies) or "no packages"
    return f"its environment is being made (Python {recipe.version}, {packages}); see: hooklatch status"


PRODUCT = EnvironmentProduct(SourceEnvironments, read_requirements, add_lock_file)

"""The sources of hooks and their pools.  Knows builds, how they are proven and what names them; does not know layers.

A source is a file or a module.  Each version of it is a *build* with its own pool.  A new build is proven to import in
a fresh worker before anything uses it.  The old one retires when the last fire that may need it has ended.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from functools import partial

import msgspec
import trio

from hooklatch.core.hooks.builtin_sources import SHELL, BuiltinSource
from hooklatch.core.hooks.definitions import HookDefinition
from hooklatch.disks import limit_look
from hooklatch.errors import describe_error, locate_error
from hooklatch.file_safety import UnsafeFileError, read_safely
from hooklatch.files import open_regular_file
from hooklatch.path_lookup import LATE, TICK_NS, Stamp, is_passing, stamp_path, stamp_paths, status_at
from hooklatch.processes.environment_slot import (
    SCRIPT_BLOCK,
    Environment,
    EnvironmentFaultError,
    EnvironmentSlot,
    Requirements,
    RequirementsError,
    add_lock_file,
    load_environments,
)
from hooklatch.processes.pool import Pool
from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.resource_limits import MemoryWatch
from hooklatch.processes.supervisor import ChildSpec, Supervisor
from hooklatch.processes.worker import SourceLoadError
from hooklatch.processes.zygote import ForkError, ZygoteClient
from hooklatch.products import SOURCES, ProductError, list_products, load_product
from hooklatch.service.config.configuration import ConfigError, Diagnostic
from hooklatch.threads import look_in_thread
from hooklatch_worker import wire
from hooklatch_worker.wire import MAX_BUILD, Source, SourceLoaded

__all__ = [
    "Sources", "SourceBuild", "UnitError", "SourceVersion", "source_lock_path", "read_source_version",
    "add_named_files", "find_builtin_source", "find_definition_target",
]  # fmt: skip

logger = logging.getLogger("hooklatch.sources")
GRACE = 60.0  # seconds for a client to register hooks on the build that it has requested


class UnitError(ConfigError):
    """A source cannot be used; `is_passing` if another try may succeed."""

    def __init__(self, diagnostic: Diagnostic, *, is_passing: bool = False) -> None:
        super().__init__(diagnostic)
        self.is_passing = is_passing


class SourceVersion(msgspec.Struct, frozen=True):
    """A source as it was read just now; the code of a module is read by the worker that imports it.

    `folder`: the files below it are a part of the build.  `pins`: a file in it has this sha256, by path, or may not be
    loaded.  `named` are the bytes of the files that are named as its data, by path.
    `python` is the interpreter that files name for it.  `required` are the requirements of a block in it, read once
    with its lock.  `may_make`: an environment for them may be made.
    """

    source: Source
    code: bytes
    stamps: dict[str, Stamp]
    began_ns: int
    pins: dict[str, str] | None = None
    python: str | None = None
    required: Requirements | None = None
    may_make: bool = False
    folder: str = ""
    named: dict[str, bytes] = {}

    def find_requirements(self) -> Requirements | None:
        """Return the requirements of the block in its file; None if it has none, or if this interpreter meets them.

        Raises:
            UnitError: the block is wrong, or an interpreter is named beside it.
        """
        if SCRIPT_BLOCK not in self.code:
            return None
        try:
            requirements = load_environments().read_block(self.code)
        except RequirementsError as error:
            raise UnitError(Diagnostic(self.source.location, error.line, str(error))) from None
        except EnvironmentFaultError as error:
            raise UnitError(Diagnostic(self.source.location, 0, str(error))) from None
        if requirements is None or not (requirements.dependencies or requirements.python):
            return None
        if requirements.lock:
            requirements = add_source_lock(requirements, self.source.location)
        if self.python is not None:
            interpreter = f"[[source]] names the interpreter {self.python}"
            text = f"it has a `# /// script` block, and {interpreter}; remove one of the two"
            raise UnitError(Diagnostic(self.source.location, 1, text))
        return None if not requirements.dependencies and requirements.admits(PYTHON_VERSION) else requirements


PYTHON_VERSION = ".".join(map(str, sys.version_info[:3]))


def read_source_version(source: Source, stamp: Stamp | None = None) -> SourceVersion:
    """Read the present version of a source; its `stamp` was read just now, if it is given.

    Raises:
        UnitError: it is missing, unsafe, or cannot be read.
    """
    began_ns = time.time_ns()
    if source.kind != "file":
        return SourceVersion(source, b"", {}, began_ns)
    before = stamp or stamp_path(source.location)  # before the code: a change in between must make the stamp look old
    try:
        code = read_safely(source.location)
    except FileNotFoundError:
        raise UnitError(Diagnostic(source.location, 0, "there is no such file")) from None
    except (UnsafeFileError, OSError) as error:
        raise UnitError(Diagnostic(source.location, 0, describe_error(error)), is_passing=is_passing(error)) from None
    source = Source(source.kind, source.location, hashlib.sha256(code).hexdigest())
    return SourceVersion(source, code, {source.location: before}, began_ns, folder=os.path.dirname(source.location))


def add_named_files(version: SourceVersion, paths: Iterable[str]) -> SourceVersion:
    """Return a version with the files that are named as its data.

    Raises:
        UnitError: a file is missing, unsafe, or cannot be read.
    """
    stamps, named = dict(version.stamps), dict[str, bytes]()
    for path in paths:
        stamps[path] = stamp_path(path)
        try:
            named[path] = read_safely(path, maximum=MAX_BUILD)
        except FileNotFoundError:
            text = f"there is no such file, which files of {version.source.location} names"
            raise UnitError(Diagnostic(path, 0, text)) from None
        except (UnsafeFileError, OSError) as error:
            raise UnitError(Diagnostic(path, 0, describe_error(error)), is_passing=is_passing(error)) from None
    if sum(map(len, named.values())) > MAX_BUILD:
        text = f"its files have more than {MAX_BUILD // 2**20} MiB in all; name fewer or smaller ones"
        raise UnitError(Diagnostic(version.source.location, 0, text))
    return msgspec.structs.replace(version, stamps=stamps, named=named)


def add_source_lock(requirements: Requirements, location: str) -> Requirements:
    """Return requirements with their lock file, which is beside the source.

    Raises:
        UnitError: the lock file is missing, unsafe, or cannot be read.
    """
    path = source_lock_path(requirements, location)
    try:
        return add_lock_file(requirements, read_safely(path))
    except FileNotFoundError:
        fault = Diagnostic(path, 0, f"there is no such file, which {location} names as its lock")
        raise UnitError(fault, is_passing=True) from None
    except (RequirementsError, EnvironmentFaultError, UnsafeFileError, OSError) as error:
        raise UnitError(Diagnostic(path, 0, describe_error(error)), is_passing=True) from None


def source_lock_path(requirements: Requirements, location: str) -> str:
    return os.path.join(os.path.dirname(location), requirements.lock)


def find_definition_target(definition: HookDefinition, folder: str) -> tuple[Source, str]:
    """Return the source and the function of a definition's target: without `run` (a command, a stand-in) the shell's.

    A relative path is relative to `folder`.
    """
    if definition.run is None:
        return SHELL.source, SHELL.function
    place, _, function = definition.run.rpartition(":")
    if place.endswith(".py") or "/" in place:
        path = os.path.normpath(os.path.join(folder, os.path.expanduser(place)))
        return Source("file", path), function
    return Source("module", place), function


def find_builtin_source(source: Source) -> BuiltinSource | None:
    """Return the differences of a source of ours or of a product; None for a user's source.

    A product that cannot be loaded gets no more rights than a user's source.
    """
    if source == SHELL.source:
        return SHELL
    try:
        is_of_product = source.kind == "module" and source.location in list_products(SOURCES)
        return load_product(SOURCES, source.location, BuiltinSource) if is_of_product else None
    except ProductError:
        return None


class SourceBuild:
    """A proven build of a source.  Hooks name it by the number `build`, which two builds of the same files share."""

    def __init__(
        self, version: SourceVersion, pool: Pool, loaded: SourceLoaded, environment: Environment | None = None
    ) -> None:
        self.source = version.source
        self.python = version.python
        self.folder = version.folder
        self.text = version.code
        self.named = set(version.named)
        self.environment = environment
        self.build = pool.build
        self.pool = pool
        self.loaded = loaded
        # Of the bytes that were loaded, not of the present files: a file that changed since must count as changed.
        self._digests: dict[str, str | None] = dict.fromkeys(version.stamps.keys() - version.named, self.source.digest)
        held = loaded.build.files if loaded.build is not None else {}
        others = list_other_files(version, loaded)
        self._digests |= {path: hashlib.sha256(data).hexdigest() for path, data in held.items()}
        self.stamps: dict[str, Stamp] = version.stamps | {path: stamp_path(path) for path in others}
        self.is_behind = False  # a file changed while it was loaded, so its stamp may be that of the new content
        for path in others:
            if path in held:
                self.is_behind |= self._digest(path) != self._digests[path]
            elif (has_changed := has_changed_since(path, version.began_ns)) is None:
                self._digests[path] = None  # a file that appears there since may be another one than was loaded
            else:
                self._digests[path] = None if has_changed else self._digest(path)
                self.is_behind |= has_changed
        # The sha256 of each file from which the build was loaded.
        self.digests = {path: digest for path, digest in self._digests.items() if digest is not None}
        self.requested_at = -math.inf  # the moment at which a client last named it

    def is_like(self, other: SourceBuild) -> bool:
        """Return whether both were loaded from the same files, each of them known, in the same way."""
        if None in self._digests.values() or self._digests != other._digests:
            return False
        own, others = (
            (
                unit.source, unit.python, unit.environment, unit.pool.limits.worker.isolation,
                msgspec.structs.replace(unit.loaded, generation=0, build=None),  # their bytes are compared by digest
            )
            for unit in (self, other)
        )  # fmt: skip
        return own == others

    def read_newer(self, stamps: Mapping[str, Stamp] | None = None) -> SourceVersion | None:
        """Return the present version, or None if its files and environment still are those that were loaded.

        `stamps` are those of its files, if they were read just now.

        A new mtime alone is not a new version.  If no file was written, none is read.

        Raises:
            UnitError: the source cannot be read.
        """
        now, is_usable = self.read_stamps(stamps), self.pool.fault is None and self._has_environment()
        if now == self.stamps and is_usable and not self.is_behind:
            return None
        version = read_source_version(self.source, now[self.source.location] if self.source.kind == "file" else None)
        if version.source != self.source or not is_usable:
            return version
        others = ((path, digest) for path, digest in self._digests.items() if path not in version.stamps)
        if any(known is None or self._digest(path) != known for path, known in others):
            return version  # a file was or is unreadable, so it may be another one
        self.stamps, self.is_behind = now, False
        return None

    def read_stamps(self, stamps: Mapping[str, Stamp] | None = None) -> dict[str, Stamp]:
        """Return the present stamps of its files.  With a silent disk, a build would wait for the whole import timeout.

        Raises:
            UnitError: a disk of one of them does not answer.
        """
        now = stamp_paths(self.stamps) if stamps is None else {path: stamps[path] for path in self.stamps}
        for late in (path for path in now if now[path] == LATE):
            try:
                status_at(late)
            except OSError as error:
                raise UnitError(Diagnostic(late, 0, describe_error(error)), is_passing=True) from None
        return now

    def _has_environment(self) -> bool:
        """Return whether its environment has not changed.

        Raises:
            UnitError: a disk of the environment does not answer.
        """
        try:
            return self.environment is None or self.environment.is_current
        except TimeoutError as error:
            raise UnitError(Diagnostic(self.source.location, 0, describe_error(error)), is_passing=True) from None

    def _digest(self, path: str) -> str | None:
        """Hash a file; None if it cannot be read, or may not be loaded.  Files of packages are trusted."""
        try:
            if self.source.kind == "file":
                return hashlib.sha256(read_safely(path, maximum=MAX_BUILD)).hexdigest()
            return digest_source(path)
        except (UnsafeFileError, OSError, ValueError):
            return None


def list_other_files(version: SourceVersion, loaded: SourceLoaded) -> list[str]:
    """Return the files that were loaded for a version, except those that were read for it."""
    held = loaded.build.files if loaded.build is not None else {}
    return [path for path in {**held, **loaded.files} if path not in version.stamps]


@limit_look
def digest_source(path: str) -> str:
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Sources:
    """The active builds of all sources, and their pools; `look` runs a function that looks at files in a thread."""

    look = staticmethod(look_in_thread)

    def __init__(
        self,
        zygote: ZygoteClient,
        wait_quiesced: Callable[[], Awaitable[None]],
        pools: dict[tuple[str, int], Pool],
        *,
        on_adopted: Callable[[SourceBuild], None],
        environments: EnvironmentSlot,
        load_seconds: float = math.inf,
    ) -> None:
        self.environments = environments
        self._importing = 0
        self._loaded_by = math.inf  # the moment by which all builds under way must have been imported
        self._load_seconds = load_seconds
        self.units: dict[str, SourceBuild] = {}
        self.pools, self.memory_watch = pools, MemoryWatch(pools)
        self.zygote = zygote
        self.ended: Counter[str] = Counter()  # the counts of workers of pools that have ended
        self._wait_quiesced = wait_quiesced
        self._on_adopted = on_adopted
        self._builds = 0
        self.supervisor = Supervisor("pools")

    def faults(self) -> list[Diagnostic]:
        """Return a diagnostic for each active source whose build may not be used any more."""
        return [
            Diagnostic(location, 0, unit.pool.fault)
            for location, unit in self.units.items()
            if unit.pool.fault is not None
        ]

    def shortfalls(self) -> list[Diagnostic]:
        """Return a diagnostic for each active source whose workers are isolated less than configured."""
        return [
            Diagnostic(
                location, 0,
                f"its workers should be {now['configured']}, but only {now['in_force']} is fully active; "
                f"this kernel lacks {'; '.join(now['missing'])}",
            )
            for location, unit in self.units.items()
            if (now := unit.pool.isolation)["missing"]
        ]  # fmt: skip

    async def build(self, version: SourceVersion, limits: PoolLimits) -> SourceBuild:
        """Prove that a version of a source imports, in a worker of a new pool.

        The returned build is not active yet: `adopt` or `discard` it.

        Raises:
            UnitError: its code fails, or no worker could be forked.
        """
        source = version.source
        environment = await self._find_environment(version)
        self._builds += 1
        limits = self._limit_load_time(limits)
        zygote = environment.zygote if environment is not None else self.zygote
        code = wire.LoadCode(
            version.code, version.folder, wire.BuildFiles(version.named, {}, list(version.named)), pins=version.pins
        )
        pool = Pool(source, self._builds, zygote, limits, code, on_busy=self.memory_watch.begin)
        spec = ChildSpec(pool.name, pool.run, reports_start=True, below=pool.workers)
        self._importing += 1
        try:
            loaded = await self.supervisor.start(spec)
        except SourceLoadError as error:
            self._release(environment)
            raise UnitError(Diagnostic(error.file or source.location, error.line, error.message)) from None
        except (ForkError, OSError) as error:
            self._release(environment)
            fault = Diagnostic(source.location, 0, f"no worker could be started: {locate_error(error)}")
            raise UnitError(fault, is_passing=True) from None
        except BaseException:
            self._release(environment)
            raise
        finally:
            self._importing -= 1
        try:
            make = partial(SourceBuild, version, pool, loaded, environment)
            return await self.look(make) if list_other_files(version, loaded) else make()
        except BaseException:
            self._end(pool, environment)
            raise

    def _limit_load_time(self, limits: PoolLimits) -> PoolLimits:
        """Return limits with at most the time to import that is left for all builds, and with at least two seconds."""
        now = trio.current_time()
        if not self._importing:
            self._loaded_by = now + self._load_seconds  # one deadline for all: a person waits
        return msgspec.structs.replace(limits, load_timeout=min(limits.load_timeout, max(2.0, self._loaded_by - now)))

    async def _find_environment(self, version: SourceVersion) -> Environment | None:
        if version.python is None and version.required is None:
            return None
        try:
            environment = await self.environments.acquire(version.python, version.required, may_make=version.may_make)
        except EnvironmentFaultError as error:
            raise UnitError(Diagnostic(version.source.location, 0, str(error)), is_passing=True) from None
        if version.required is not None and version.required.lock:
            try:
                await self.look(partial(watch_lock, environment, version))
            except BaseException:
                self._release(environment)
                raise
        return environment

    def adopt(self, unit: SourceBuild) -> None:
        """Make a build active; the one before it retires once no fire can need it."""
        old = self.units.get(unit.source.location)
        self.units[unit.source.location] = unit
        self.pools[unit.source.location, unit.build] = unit.pool
        if old is None or old.build != unit.build:
            self._on_adopted(unit)
        if old is not None and old is not unit:
            self._retire(old)

    def drop(self, location: str) -> None:
        """Retire a build that must not be used any more, though there is no other."""
        self._retire(self.units.pop(location))

    def forget(self, keep: Container[str]) -> None:
        """Retire every build whose source is no longer declared, except those just built for a registration."""
        now = trio.current_time()
        for location in [location for location in self.units if location not in keep]:
            if now - self.units[location].requested_at > GRACE:
                self._retire(self.units.pop(location))

    def _retire(self, unit: SourceBuild) -> None:
        self.supervisor.spawn("retirement", self._retire_when_quiet, unit)

    async def _retire_when_quiet(self, unit: SourceBuild) -> None:
        await self._wait_quiesced()
        self.discard(unit)

    def discard(self, unit: SourceBuild) -> None:
        """End the pool of a build that no fire uses."""
        logger.info("pool ended", extra={"source": unit.source.location, "build": unit.build})
        # the same files built afresh have the same number
        if self.pools.get((unit.source.location, unit.build)) is unit.pool:
            del self.pools[unit.source.location, unit.build]
        self._end(unit.pool, unit.environment)
        unit.environment = None

    def _end(self, pool: Pool, environment: Environment | None) -> None:
        self.ended.update(pool.counts)
        self.supervisor.end(pool.name)
        self._release(environment)

    def _release(self, environment: Environment | None) -> None:
        if environment is not None:
            self.environments.release(environment)


def watch_lock(environment: Environment, version: SourceVersion) -> None:
    """Count a change of the lock file as one of its environment, since the file was read.

    Raises:
        UnitError: its content has changed since.
    """
    assert version.required is not None
    location = version.source.location
    environment.watch(source_lock_path(version.required, location))
    if add_source_lock(version.required, location) != version.required:
        text = "it changed while its environment was prepared; it is read again"
        raise UnitError(Diagnostic(source_lock_path(version.required, location), 0, text), is_passing=True)


def has_changed_since(path: str, began_ns: int) -> bool | None:
    """Return whether a file was written or moved there since, None if that is unknown; the future does not count."""
    try:
        changed_ns = status_at(path).st_ctime_ns  # not mtime: a file that is moved here keeps its own
    except (OSError, ValueError):
        return None
    return began_ns - TICK_NS < changed_ns <= time.time_ns()

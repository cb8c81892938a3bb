"""The start of a worker: forked, its source imported, isolated as required.  Does not know calls, nor the pool's size.

The first worker of a build proves it. It imports from the disk, and reports the bytes of all files that are a part of
the source.  Every later worker imports these bytes, and nothing else of that folder.

A worker that may not write into /tmp creates its own scratch directory (hooklatch_worker.sandbox.isolation), below one
of the daemon's.  It is removed when the worker is dead.  When the daemon is dead its zygote removes what is left. When
both are dead, the next daemon does.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable

import msgspec
import trio

from hooklatch.processes.pool_limits import PoolLimits
from hooklatch.processes.worker import PoolWorker, SourceLoadError
from hooklatch.processes.zygote import ZygoteClient, ZygoteLostError
from hooklatch.threads import in_thread
from hooklatch_worker import wire

__all__ = ["WorkerStarter", "remove_scratch", "clear_scratch", "scratch_root"]

logger = logging.getLogger("hooklatch.pool")
ZYGOTES = 3  # that are tried for one start of a worker before it counts as failed
REMOVAL_TIMEOUT = 5.0  # seconds for a big directory; its remainder is removed when the daemon ends


class WorkerStarter(msgspec.Struct, eq=False):
    """The starter of the workers of one build."""

    source: wire.Source
    zygote: ZygoteClient
    code: wire.LoadCode
    on_busy: Callable[[], object]  # called when a worker begins to import
    first: wire.SourceLoaded | None = None  # what the worker that proved this build reported
    loading: dict[PoolWorker, None] = {}
    started: int = 0

    async def start(self, limits: PoolLimits) -> tuple[PoolWorker, wire.SourceLoaded]:
        """Return a worker that has imported the source.

        Raises:
            SourceLoadError: it could not import the source, or is isolated less than is required.
            ForkError: it could not be forked.
        """
        for _ in range(ZYGOTES - 1):
            try:
                return await self._start_once(limits)
            except ZygoteLostError as error:
                where = {"source": self.source.location}
                logger.info("worker not started, again with the next zygote: %s", error, extra=where)
        return await self._start_once(limits)

    async def _start_once(self, limits: PoolLimits) -> tuple[PoolWorker, wire.SourceLoaded]:
        worker = PoolWorker(await self.zygote.fork(self.source, limits.worker), may_emit=limits.may_emit)
        self.loading[worker] = None
        self.on_busy()
        try:
            with trio.fail_after(limits.load_timeout):
                loaded = await worker.load(msgspec.structs.replace(self.code, is_open=self.first is None))
            self._check_isolation(loaded, limits)
            self._check_build(loaded)
        except BaseException as error:
            is_orphaned = worker.process.is_orphaned  # before the kill and its checkpoint: who died first decides
            worker.kill("it could not be loaded")
            worker.close()
            await remove_scratch(worker, limits.worker.isolation)
            if isinstance(error, trio.TooSlowError):
                raise SourceLoadError(f"it did not finish importing within {limits.load_timeout:.0f} s") from None
            if isinstance(error, SourceLoadError) and is_orphaned:
                raise ZygoteLostError("the zygote died while the worker imported") from None
            raise
        finally:
            self.loading.pop(worker, None)
        self.started += 1
        return worker, loaded

    def _check_isolation(self, loaded: wire.SourceLoaded, limits: PoolLimits) -> None:
        """Refuse a worker that is isolated less than required, or less than the first one was."""
        required = limits.worker.isolation
        if required.is_required and (loaded.isolation != required.level or loaded.missing):
            raise SourceLoadError(f"{required.level} isolation is required, but only {loaded.isolation} is active")
        if self.first is not None and (lost := set(loaded.missing) - set(self.first.missing)):
            raise SourceLoadError(f"it is isolated less than the source's first worker was: {'; '.join(sorted(lost))}")

    def _check_build(self, loaded: wire.SourceLoaded) -> None:
        """Take the files that the first worker reports. Refuse a later worker that ran other files."""
        if self.first is None:
            if self.source.kind == "file":
                self.code = msgspec.structs.replace(self.code, build=self._validate_build(loaded), pins=None)
            self.first = loaded
        elif self.source.kind == "file" and loaded.files != self.first.files:
            difference = describe_source_difference(self.first, loaded)
            text = f"a worker ran other files than the one that proved this build: {difference}"
            raise SourceLoadError(text, is_outside=True)

    def _validate_build(self, loaded: wire.SourceLoaded) -> wire.BuildFiles:
        """Return the build that the first worker reports, if it is valid, since a worker is not trusted.

        Raises:
            SourceLoadError: a file has run that is not in the build, or the build has a file that it may not have.
        """
        build, code = loaded.build or wire.BuildFiles(), self.code
        files = {self.source.location: code.data, **build.files}
        if sum(map(len, files.values())) > wire.MAX_BUILD:
            raise SourceLoadError(f"its build is over {wire.MAX_BUILD // 2**20} MiB")
        digests = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        for path in digests:
            if not path.startswith(os.path.join(code.folder, "")) or os.path.normpath(path) != path:
                raise SourceLoadError(f"{path} is not below {code.folder}")
        for path, digest in loaded.files.items():
            if digests.get(path) != digest:
                text = "was run in a way that cannot be held: import it by its name, or unpack its archive"
                raise SourceLoadError(f"{path} {text}", self.source.location)
        if code.pins is not None:
            for path, digest in digests.items():
                if code.pins.get(path) != digest:
                    raise SourceLoadError("it is not what was signed or trusted", path)
        return build


def describe_source_difference(first: wire.SourceLoaded, loaded: wire.SourceLoaded) -> str:
    """Return a text that names the files in which two workers differ."""
    kinds = (
        ("it did not run", first.files.keys() - loaded.files.keys()),
        ("it alone ran", loaded.files.keys() - first.files.keys()),
        (
            "it ran another version of",
            {path for path, own in loaded.files.items() if first.files.get(path, own) != own},
        ),
    )
    return "; ".join(f"{kind} {', '.join(sorted(paths))}" for kind, paths in kinds if paths)


def scratch_root(state_dir: str) -> str:
    """Return the directory of this daemon's workers, by pid: another daemon's zygote may still be removing its own."""
    return os.path.join(state_dir, "tmp", str(os.getpid()))


def clear_scratch(state_dir: str) -> None:
    """Remove the directories that dead daemons have left."""
    if os.path.lexists(folder := os.path.join(state_dir, "tmp")):
        from hooklatch_worker.sandbox.temporary import remove_tree  # only isolated workers have such directories

        remove_tree(folder)


async def remove_scratch(worker: PoolWorker, isolation: wire.Isolation) -> None:
    """Remove the temporary directory of a dead worker, in a thread unless it is empty: its hooks decide its size."""
    root = isolation.temporary
    if not root:
        return
    folder = os.path.join(root, str(worker.generation))
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        from hooklatch_worker.sandbox.temporary import remove_tree

        with trio.move_on_after(REMOVAL_TIMEOUT, shield=True):
            await in_thread(remove_tree, folder, abandon_on_cancel=True)

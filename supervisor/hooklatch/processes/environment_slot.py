"""The environments of sources, which are a product: nothing of it is loaded until a source needs an environment.

A source needs one if a file names its interpreter, or if it has a block of requirements.  While the product cannot be
loaded, such a source has no build, so that its hooks fail.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import trio

from hooklatch.processes.supervisor import Supervisor
from hooklatch.processes.zygote import ZygoteClient
from hooklatch.products import DAEMON, ProductError, load_product
from hooklatch.threads import in_thread

if TYPE_CHECKING:
    from hooklatch.core.status_answers import EnvironmentStatus

__all__ = [
    "Environment", "EnvironmentFaultError", "EnvironmentProduct", "EnvironmentSlot", "Environments", "Requirements",
    "RequirementsError", "SCRIPT_BLOCK", "add_lock_file", "load_environments",
]  # fmt: skip

SCRIPT_BLOCK = b"# /// script"  # how a block of requirements begins
FIRST_TIDY, TIDY_INTERVAL = 600.0, 6 * 3600.0  # seconds; not at the start, when nothing is in use yet


class EnvironmentFaultError(Exception):
    """A source's environment cannot be used, or not yet.  The text says why and what to do."""


class RequirementsError(Exception):
    """A block cannot be used; the text says why, `line` says where."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


class Requirements(msgspec.Struct, frozen=True):
    """The packages that a source needs, in one spelling and sorted, and for which versions of Python it is written.

    `lock` is the path of a file beside the source that lists the files to install with their hashes, and `locked` is
    its content.
    """

    dependencies: tuple[str, ...] = ()
    python: str = ""
    lock: str = ""
    locked: str = ""
    lock_digest: str = ""

    def admits(self, version: str) -> bool:
        """Return whether the source is written for this version of Python, such as 3.12.4."""
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(self.python).contains(version, prereleases=True)

    def digest(self, *more: str) -> str:
        """Return the digest that tells environments apart: of these packages, and of `more` that they depend on."""
        return hashlib.sha256(msgspec.json.encode([self.dependencies, self.locked, more])).hexdigest()[:32]


class Environment(Protocol):
    """An environment in use, with its zygote."""

    @property
    def zygote(self) -> ZygoteClient: ...

    @property
    def marks(self) -> Mapping[str, object]: ...

    @property
    def is_current(self) -> bool: ...

    def watch(self, path: str) -> None: ...


class Environments(Protocol):
    """The environments in use, and the builds of new ones."""

    @property
    def is_making(self) -> bool: ...

    def roots(self) -> frozenset[int]: ...
    async def settle(self) -> None: ...
    async def acquire_named(self, python: str) -> Environment: ...
    async def acquire_required(self, requirements: Requirements, *, may_make: bool) -> Environment: ...
    def release(self, environment: Any) -> None: ...  # one that it has given out
    def renew(self) -> None: ...
    async def remove_unused(self) -> None: ...
    def status(self) -> list[EnvironmentStatus]: ...


class EnvironmentProduct(NamedTuple):
    """The product: `open` makes its environments; the others read a block in a file, and the lock file of a block."""

    open: Callable[[str, Supervisor, Callable[[], None], bool], Environments]
    read_block: Callable[[bytes], Requirements | None]
    add_lock_file: Callable[[Requirements, bytes], Requirements]


def load_environments() -> EnvironmentProduct:
    """Load the product.

    Raises:
        EnvironmentFaultError: it cannot be loaded.
    """
    try:
        return load_product(DAEMON, "environments", EnvironmentProduct)
    except ProductError as error:
        raise EnvironmentFaultError(str(error)) from None


def add_lock_file(requirements: Requirements, data: bytes) -> Requirements:
    """Return requirements with the content of their lock file.

    Raises:
        RequirementsError: a line of it is not a requirement with its hashes.
        EnvironmentFaultError: the product cannot be loaded.
    """
    return load_environments().add_lock_file(requirements, data)


class EnvironmentSlot:
    """The environments of a daemon's sources, in `folder`; `changed` is called whenever a build of one has ended."""

    def __init__(self, folder: str, *, owns_process: bool, changed: Callable[[], None]) -> None:
        self.supervisor = Supervisor("environments")
        self._folder = folder
        self._owns_process = owns_process
        self._changed = changed
        self._loaded: Environments | None = None

    def _use(self) -> Environments:
        if self._loaded is None:
            product = load_environments()
            self._loaded = product.open(self._folder, self.supervisor, self._changed, self._owns_process)
        return self._loaded

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the zygotes of environments until cancelled."""
        async with self.supervisor.open():
            self.supervisor.spawn("tidying", self._remove_unused)  # its failure must end no zygote
            task_status.started()
            await trio.sleep_forever()

    async def _remove_unused(self) -> None:
        wait = FIRST_TIDY
        while True:
            await trio.sleep(wait)
            wait = TIDY_INTERVAL
            if await in_thread(os.path.lexists, self._folder):
                await self._use().remove_unused()

    def roots(self) -> frozenset[int]:
        """Return the processes whose descendants run all hooks of these environments."""
        return self._loaded.roots() if self._loaded is not None else frozenset()

    @property
    def is_making(self) -> bool:
        return self._loaded is not None and self._loaded.is_making

    async def settle(self) -> None:
        """Wait until nothing is being made."""
        if self._loaded is not None:
            await self._loaded.settle()

    async def acquire(self, python: str | None, requirements: Requirements | None, *, may_make: bool) -> Environment:
        """Return the environment of a source that needs one: with its interpreter, or for its requirements.

        The caller must `release` it.

        Raises:
            EnvironmentFaultError: it is not there yet, or must not be used, or cannot be used.
        """
        if requirements is not None:
            return await self._use().acquire_required(requirements, may_make=may_make)
        assert python is not None, "a source that needs none"
        return await self._use().acquire_named(python)

    def release(self, environment: Environment) -> None:
        """Give up an environment.  Its zygote ends with its last user."""
        self._use().release(environment)

    def renew(self) -> None:
        """Let failed builds be tried again when they are wanted next, and named interpreters be inspected again."""
        if self._loaded is not None:
            self._loaded.renew()

    def status(self) -> list[EnvironmentStatus]:
        """Return the state of each environment that is in use, being made, or failed."""
        return self._loaded.status() if self._loaded is not None else []

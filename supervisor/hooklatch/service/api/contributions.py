"""The parts of a daemon that products add (`hooklatch/products.py`), each in a slot that is empty until it is wanted.

    empty ── settings want it, or a method of its name is called ──▶ loaded, until the daemon ends
      └───── it is wanted, and fails ──▶ a fault: the daemon is red; tried again at each reload

The fleet's slot has a layer of hooks above all others.  With a fault it denies every gate: it is unknown what its
policy says.  Knows what a product may add; imports no product.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from hooklatch.core.protocol import ErrorCode, RpcError
from hooklatch.products import DAEMON, ProductError, load_product, run_product
from hooklatch.service.api.methods import MethodTable
from hooklatch.service.config.settings import Settings
from hooklatch.service.loading.bundle import Fleet
from hooklatch.service.loading.see import FleetFiles
from hooklatch.service.transport.connection import Connection, Role

if TYPE_CHECKING:
    from hooklatch.core.status_answers import FleetStatus

__all__ = ["Contribution", "ContributionSlot", "PolicyContribution", "PolicyRejectedError", "PolicySlot"]

logger = logging.getLogger("hooklatch.products")
REMEDY = "repair the installation, then: hooklatch reload"


class PolicyRejectedError(Exception):
    """Manifests or a bundle are rejected, and the active policy stays; the text says why."""


class Contribution:
    """A product's part of a running daemon, made of the `DaemonComponents`.  What it does not override adds nothing."""

    @property
    def of_administrators(self) -> MethodTable:
        """Return the methods of the admin socket; each begins with the product's name and an underscore."""
        return {}

    @property
    def of_links(self) -> MethodTable:
        """Return the methods of connections that it has admitted as links."""
        return {}

    @property
    def problems(self) -> list[str]:
        """Return what is wrong, and what to do; each makes the daemon red."""
        return []

    def take(self, settings: Settings) -> None:
        """Apply new settings."""

    def status(self) -> FleetStatus | None:
        """Return what `status` shows administrators."""
        return None

    async def run(self) -> None:
        """Run under the daemon's supervisor, from when it is loaded and clients are served."""
        await trio.sleep_forever()

    def close(self) -> None:
        """Give up what a daemon that has ended must not leave behind."""


class PolicyContribution(Contribution, Fleet):
    """The part that has a policy: a layer of signed hooks above all others, and a denial of every gate."""

    def load(self) -> None:
        """Read the policy that was active before the start, without verifying it yet."""
        raise NotImplementedError

    async def leave(self) -> bool:
        """Drop the policy if its table is gone, which the operator has accepted; return whether there was one.

        Raises:
            PolicyRejectedError: it could not be removed, and stays active.
        """
        raise NotImplementedError

    async def clean(self) -> None:
        """Remove what no fire needs any more."""
        raise NotImplementedError

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        """Give a connection the role of a link.

        Raises:
            RpcError: it may not have it.
        """
        raise NotImplementedError


P = TypeVar("P", bound=Contribution)


class ContributionSlot(Generic[P]):
    """The slot of one product.  `make` gives a product's class what it needs; `is_wanted` decides by the settings."""

    def __init__(
        self, name: str, kind: type[Any], make: Callable[[Callable[..., P]], P], is_wanted: Callable[[Settings], bool]
    ) -> None:
        self.name = name
        self._kind = kind
        self._make = make
        self._is_wanted = is_wanted
        self._fault: str | None = None
        self._loaded: P | None = None
        self._arrived = trio.Event()

    @property
    def loaded(self) -> P | None:
        """Return the product's part, if it was wanted and could be loaded."""
        return self._loaded

    def use(self) -> P:
        """Return the product's part, and load it at the first use.

        Raises:
            ProductError: it cannot be loaded.
        """
        if self._loaded is None:
            product = load_product(DAEMON, self.name, type)
            if not issubclass(product, self._kind):
                raise ProductError(f"{product.__qualname__} is not a {self._kind.__name__}")
            part: P = run_product(f"{product.__qualname__} cannot be made", self._kind, lambda: self._make(product))
            self._loaded = part
            self._arrived.set()
        return self._loaded

    def demand(self, settings: Settings | None = None) -> P | None:
        """Return the product's part, with new settings. That it cannot be loaded or take them is a fault."""
        try:
            part = self.use()
            if settings is not None:
                run_product("its settings cannot be applied", object, lambda: part.take(settings))
        except ProductError as error:
            text = f"{self.name}: {error}; {REMEDY}"
            if text != self._fault:
                logger.error("%s", text)
            self._fault = text
            return None
        self._fault = None
        return part

    def take(self, settings: Settings) -> None:
        """Apply new settings, if they want the product, or earlier ones did."""
        if self._loaded is None and not self._is_wanted(settings):
            self._fault = None
        else:
            self.demand(settings)

    def methods_of(self, role: Role) -> MethodTable:
        """Return the methods of a role; none while the product is not loaded."""
        if self._loaded is None or role == "agent":
            return {}
        return self._loaded.of_links if role == "link" else self._loaded.of_administrators

    def load_methods(self) -> None:
        """Load the product for its methods.

        Raises:
            RpcError: it cannot be loaded.
        """
        try:
            self.use()
        except ProductError as error:
            raise RpcError(ErrorCode.INTERNAL_ERROR, str(error)) from None

    @property
    def problems(self) -> list[str]:
        if self._fault is not None:
            return [self._fault]
        return self._loaded.problems if self._loaded is not None else []

    def status(self) -> FleetStatus | None:
        return self._loaded.status() if self._loaded is not None else None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the product's part, as soon as there is one."""
        task_status.started()
        await self._arrived.wait()
        assert self._loaded is not None
        await self._loaded.run()

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()


class PolicySlot(ContributionSlot[PolicyContribution]):
    """The slot of the product with a policy.  While it is wanted and cannot be loaded, every gate denies."""

    def restore(self, settings: Settings) -> None:
        """Read the policy that was active, if settings or what is on the disk say that there was one."""
        if (self._loaded is not None or self._is_wanted(settings)) and (part := self.demand()) is not None:
            part.load()

    def look(self, before: FleetFiles | None, *, mends: bool) -> Callable[[], FleetFiles | None]:
        if self._fault is not None:
            unknown = FleetFiles(fault=self._fault, is_to_retry=True)
            return lambda: unknown
        return self._loaded.look(before, mends=mends) if self._loaded is not None else lambda: None

    def add_denial(self, files: FleetFiles | None) -> FleetFiles | None:
        if self._fault is not None:
            return FleetFiles(fault=self._fault)
        return self._loaded.add_denial(files) if self._loaded is not None else files

    def record_active(self, files: FleetFiles | None) -> None:
        if self._loaded is not None:
            self._loaded.record_active(files)

    def record_attempt(self, what: str, hook: str) -> None:
        if (part := self.demand()) is not None:
            part.record_attempt(what, hook)

    async def leave(self) -> bool:
        return await self._loaded.leave() if self._loaded is not None else False

    def admit(self, connection: Connection, role: str, token: str | None, *, has_session: bool) -> None:
        self.load_methods()
        self.use().admit(connection, role, token, has_session=has_session)

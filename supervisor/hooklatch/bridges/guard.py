"""The guard that a bridge asks before an action, and notifies after it.  Knows a session; knows no SDK.

`before_tool` and `before_prompt` always return a ruling: an error, a missing daemon or a passed deadline is a refusal.
They raise only the caller's own cancellation, after which nothing may run either.  `tell` returns nothing, raises
nothing and waits for no hook.

    async with open_guard(host="my-agent") as guard:
        ruling = await guard.before_tool("Bash", {"command": "ls"}, "call-1", SdkAbilities(name="my-sdk"))

A session of `hooklatch.session` belongs to the event loop that opened it; one of `connect_sync` to the whole process,
so a guard over it serves any loop and any thread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, TypeVar, Unpack, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from hooklatch.bridges.rulings import ProceedRuling, RefuseRuling, Ruling, SdkAbilities, make_ruling, read_object
from hooklatch.client.async_client import Session, session
from hooklatch.client.protocol.decisions import Decision
from hooklatch.client.protocol.json_values import encode_plain
from hooklatch.client.protocol.options import SessionOptions
from hooklatch.client.protocol.tool_calls import make_plain_result, print_value_as_text
from hooklatch.client.sync_client import SyncSession, connect_sync
from hooklatch.core.refusal_texts import NOT_RUN, STATUS, UNJUDGED, frame_for_model

__all__ = ["make_missing_sdk_error", "Guard", "open_guard", "open_guard_sync"]


def make_missing_sdk_error(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error for a bridge whose SDK cannot be imported."""
    text = f"the bridge to {extra} needs {error.name!r}; install it with: pip install 'hooklatch[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)


log = logging.getLogger("hooklatch.bridges")
T = TypeVar("T")
BUDGET: Final = 30.0  # seconds; for an event of which the daemon has said nothing yet
GRACE: Final = 7.0  # seconds; the daemon decides by its budget, and the client gives up a silent daemon after 5
MARGIN: Final = 0.5  # seconds before our own deadline that the daemon is given, at most; a tenth of a short one
RECEIPT: Final = 0.5  # seconds; a notification is sent by then, whether or not the daemon has said that it has it


class Guard:
    """The guard of one program's bridges.  Any number of agents, tasks and, over `connect_sync`, threads may share it.

    `deadline` is in seconds: after it a request without an answer is refused.  The default is the event's own budget,
    and the time in which the client notices that a daemon is silent.
    """

    def __init__(self, session: Session | SyncSession, *, deadline: float | None = None) -> None:
        self._session = session
        self._deadline = deadline
        self._home = None if isinstance(session, SyncSession) else anyio.lowlevel.current_token()

    async def before_tool(
        self,
        name: str,
        tool_input: object,
        tool_use_id: str | None,
        abilities: SdkAbilities,
        /,
        *,
        kind: Mapping[str, Any] | None = None,
        **envelope: str | None,
    ) -> Ruling:
        """Fire pre_tool_use.

        `tool_input` is an object, or its JSON; `kind` has `tool_kind` and `tool_args` where the bridge knows more than
        the tool's name says; `envelope` has agent_id and agent_type.
        """
        return await self._ask(self._make_tool_request(name, tool_input, tool_use_id, envelope, kind or {}), abilities)

    async def before_prompt(self, prompt: str, abilities: SdkAbilities, /) -> Ruling:
        """Fire user_prompt_submit."""
        return await self._ask(
            lambda: GateRequest("user_prompt_submit", "prompt", prompt, {"prompt": prompt}), abilities
        )

    def before_tool_blocking(
        self, name: str, tool_input: object, tool_use_id: str | None, abilities: SdkAbilities, /, **envelope: str | None
    ) -> Ruling:
        """Do what `before_tool` does, in a thread without an event loop; only over a session of `connect_sync`."""
        return self._ask_blocking(self._make_tool_request(name, tool_input, tool_use_id, envelope, {}), abilities)

    def before_prompt_blocking(self, prompt: str, abilities: SdkAbilities, /) -> Ruling:
        """Do what `before_prompt` does, in a thread without an event loop; only over a session of `connect_sync`."""
        request = GateRequest("user_prompt_submit", "prompt", prompt, {"prompt": prompt})
        return self._ask_blocking(lambda: request, abilities)

    async def after_tool(self, result: object, abilities: SdkAbilities, /, **payload: Any) -> Ruling:
        """Fire tool_result, and after it post_tool_use; the ruling has what the model may read, or why it may not.

        `payload` has tool_name, tool_input, tool_use_id, and the tool's kind where the bridge knows it.
        """
        ruling = await self.judge_result(result, abilities, **payload)
        await self.tell("post_tool_use", **payload, tool_response=result)
        return ruling

    async def judge_result(self, result: object, abilities: SdkAbilities, /, **payload: Any) -> Ruling:
        """Fire tool_result alone, where another point of the SDK reports the call."""
        return mark_withheld(await self._ask(self._make_result_request(result, payload), abilities), result)

    def after_tool_blocking(self, result: object, abilities: SdkAbilities, /, **payload: Any) -> Ruling:
        """Do what `after_tool` does, in a thread without an event loop; only over a session of `connect_sync`."""
        ruling = self._ask_blocking(self._make_result_request(result, payload), abilities)
        self.tell_blocking("post_tool_use", **payload, tool_response=result)
        return mark_withheld(ruling, result)

    def _make_result_request(self, result: object, payload: Mapping[str, Any]) -> Callable[[], GateRequest]:
        def make_request() -> GateRequest:
            fields = drop_empty_fields(payload)
            shown = make_plain_result(result)
            return GateRequest("tool_result", "tool_response", shown, {**fields, "tool_response": shown})

        return make_request

    async def tell(self, event: str, /, **payload: Any) -> None:
        """Fire an event without waiting for its decision; values that JSON cannot express become text."""
        try:
            with anyio.move_on_after(RECEIPT):
                await self._fire(event, drop_empty_fields(payload), wait=False)
        except Exception as error:
            log.warning("not told: event=%s %s", event, print_value_as_text(error))

    def tell_blocking(self, event: str, /, **payload: Any) -> None:
        """Do what `tell` does, in a thread without an event loop; only over a session of `connect_sync`."""
        try:
            blocking = self._blocking()
            call_within(RECEIPT, partial(blocking.fire, event, wait=False, payload=drop_empty_fields(payload)))
        except Exception as error:
            log.warning("not told: event=%s %s", event, print_value_as_text(error))

    def _make_tool_request(
        self,
        name: str,
        tool_input: object,
        tool_use_id: str | None,
        envelope: Mapping[str, str | None],
        kind: Mapping[str, Any],
    ) -> Callable[[], GateRequest]:
        def make_request() -> GateRequest:
            value = read_object(tool_input)
            payload: dict[str, Any] = {"tool_name": name, "tool_input": value, **(kind or {})}
            if tool_use_id:
                payload["tool_use_id"] = tool_use_id
            return GateRequest("pre_tool_use", "tool_input", value, payload, {k: v for k, v in envelope.items() if v})

        return make_request

    async def _ask(self, make: Callable[[], GateRequest], abilities: SdkAbilities) -> Ruling:
        try:
            request = make()
            sent = request.encoded()
            with anyio.fail_after(self.limit(request.event)):
                fired = await self._fire(
                    request.event, request.payload, wait=True, envelope=request.envelope, timeout=self._fire_timeout()
                )
            return request.settled(sent, fired, abilities)
        except Exception as error:
            return make_failure_ruling(error)

    def _ask_blocking(self, make: Callable[[], GateRequest], abilities: SdkAbilities) -> Ruling:
        try:
            request = make()
            sent = request.encoded()
            fire = partial(
                self._blocking().fire, request.event, payload=request.payload, envelope=request.envelope,
                timeout=self._fire_timeout(),
            )  # fmt: skip
            return request.settled(sent, call_within(self.limit(request.event), fire), abilities)
        except Exception as error:
            return make_failure_ruling(error)

    async def _fire(self, event: str, payload: Mapping[str, Any], **options: Any) -> object:
        if isinstance(self._session, SyncSession):
            fire: Callable[[], object] = partial(self._session.fire, event, payload=payload, **options)
            return await anyio.to_thread.run_sync(fire, abandon_on_cancel=True)
        if anyio.lowlevel.current_token() != self._home:
            raise RuntimeError("this event loop is not the one that opened the session; use open_guard_sync()")
        fire_async = cast("Callable[..., Awaitable[object]]", self._session.fire)  # as one, not as its overloads
        return await fire_async(event, payload=payload, **options)

    def _blocking(self) -> SyncSession:
        if not isinstance(self._session, SyncSession):
            raise TypeError("a call without an event loop needs a guard of open_guard_sync()")
        return self._session

    def _fire_timeout(self) -> float | None:
        """Return the daemon's seconds for a decision, a little less than ours, so that its own decision counts."""
        return None if self._deadline is None else self._deadline - min(MARGIN, self._deadline / 10)

    def limit(self, event: str) -> float:
        """Return the seconds after which a request about this event is refused."""
        return self._session.budgets.get(event, BUDGET) + GRACE if self._deadline is None else self._deadline


class GateRequest(msgspec.Struct, frozen=True):
    """One event that can be refused; `value` is the value at `key` of its payload, which may be used if it is not."""

    event: str
    key: str
    value: Any
    payload: dict[str, Any]
    envelope: dict[str, str] = {}

    def encoded(self) -> bytes:
        """Return the value as it is sent.

        Raises:
            InvalidPayloadError: it is not plain finite JSON.
        """
        return bytes(encode_plain(self.value, self.key))

    def settled(self, sent: bytes, fired: object, abilities: SdkAbilities) -> Ruling:
        """Return the ruling; a value that was changed while guards judged it is refused."""
        if not isinstance(fired, Decision):
            return RefuseRuling(text=make_failure_text("no answer"))
        if self.encoded() != sent:
            return RefuseRuling(text=f"the {self.key} was changed while its guards judged it")
        return make_ruling(fired, self.key, self.value, abilities)


def mark_withheld(ruling: Ruling, result: object) -> Ruling:
    """Return the ruling on a result, with the tool's own one where no hook changed it, or what the model reads."""
    if isinstance(ruling, ProceedRuling):
        return ruling if ruling.is_rewritten else msgspec.structs.replace(ruling, value=result)
    halts = isinstance(ruling, RefuseRuling) and ruling.halts
    return RefuseRuling(
        text=f"withheld by hooklatch: {ruling.text.removeprefix(NOT_RUN)}", halts=halts, decision=ruling.decision
    )


def make_failure_ruling(error: Exception) -> RefuseRuling:
    if isinstance(error, TimeoutError):
        return RefuseRuling(text=make_failure_text("no decision came in time"))
    return RefuseRuling(text=make_failure_text(print_value_as_text(error)))


def make_failure_text(why: str) -> str:
    before, after = frame_for_model(UNJUDGED, STATUS)
    return f"{before}: {why}{after}"


def drop_empty_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {key: make_plain_result(value) for key, value in payload.items() if value is not None}


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, and wait for it.

    Raises:
        TimeoutError: it takes longer; the thread is left behind, and ends with the program.
    """
    outcome: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # raised in the waiting thread
            outcome.put(partial(raise_error, error))
        else:
            outcome.put(lambda: result)

    threading.Thread(target=run, name="hooklatch-guard", daemon=True).start()
    try:
        return outcome.get(timeout=seconds)()
    except queue.Empty:
        raise TimeoutError(f"nothing after {seconds} s") from None


def raise_error(error: BaseException) -> Any:
    raise error


@asynccontextmanager
async def open_guard(
    session_id: str | None = None, /, *, deadline: float | None = None, **options: Unpack[SessionOptions]
) -> AsyncGenerator[Guard]:
    """Open a session and guard it: `async with open_guard(host="my-agent") as guard`.

    session_start and session_end are fired where the block begins and ends.  Without a daemon it opens too, and
    refuses.

    Raises:
        DaemonUnreachableError, RequestFailedError: see `hooklatch.connect`.
    """
    async with session(session_id, **options) as opened:
        guard = Guard(opened, deadline=deadline)
        await guard.tell("session_start", source="startup")
        try:
            yield guard
        finally:
            with anyio.CancelScope(shield=True):
                await guard.tell("session_end")


@contextmanager
def open_guard_sync(
    session_id: str | None = None, /, *, deadline: float | None = None, **options: Unpack[SessionOptions]
) -> Generator[Guard]:
    """Open a guard for a program that starts its agent without an event loop, or in several: any thread may use it.

    Otherwise as `open_guard`.
    """
    with connect_sync(session_id=session_id, **options) as opened:
        guard = Guard(opened, deadline=deadline)
        guard.tell_blocking("session_start", source="startup")
        try:
            yield guard
        finally:
            guard.tell_blocking("session_end")

"""The `@hook` marker: records on a function which events it serves, and changes nothing else about it.

Knows the shape of a hook's settings; does not know the catalogue or the syntax of patterns.  Event names and regular
expressions are checked by the daemon, which has both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from msgspec.structs import replace

from hooklatch_worker.author import ledger
from hooklatch_worker.author.marker import MAX_TIMEOUT, Marker
from hooklatch_worker.author.verdicts import GarbageError, check_plain

if TYPE_CHECKING:
    from typing import Unpack

    from hooklatch_worker.author import marker_types as t
    from hooklatch_worker.author.marker_types import AmendOptions, MarkerOptions, Match, Runtime

__all__ = ["hook"]

CO_GENERATOR, CO_ASYNC_GENERATOR = 0x20, 0x200  # from inspect, whose import would take longer than this whole module


# Callable is spelt out every time: through an alias of it, mypy loses the type of the decorated function.
@overload
def hook(
    event: Literal["session_start"], **options: Unpack[MarkerOptions]
) -> Callable[[t.SessionStartHook], t.SessionStartHook]: ...
@overload
def hook(
    event: Literal["session_end"], **options: Unpack[MarkerOptions]
) -> Callable[[t.SessionEndHook], t.SessionEndHook]: ...
@overload
def hook(
    event: Literal["user_prompt_submit"], **options: Unpack[AmendOptions]
) -> Callable[[t.UserPromptSubmitHook], t.UserPromptSubmitHook]: ...
@overload
def hook(
    event: Literal["prompt_build"], **options: Unpack[AmendOptions]
) -> Callable[[t.PromptBuildHook], t.PromptBuildHook]: ...
@overload
def hook(
    event: Literal["pre_iteration"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PreIterationHook], t.PreIterationHook]: ...
@overload
def hook(
    event: Literal["pre_model"], **options: Unpack[AmendOptions]
) -> Callable[[t.PreModelHook], t.PreModelHook]: ...
@overload
def hook(
    event: Literal["post_model"], **options: Unpack[AmendOptions]
) -> Callable[[t.PostModelHook], t.PostModelHook]: ...
@overload
def hook(
    event: Literal["model_request"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ModelRequestHook], t.ModelRequestHook]: ...
@overload
def hook(
    event: Literal["model_response"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ModelResponseHook], t.ModelResponseHook]: ...
@overload
def hook(
    event: Literal["tool_selection"], **options: Unpack[AmendOptions]
) -> Callable[[t.ToolSelectionHook], t.ToolSelectionHook]: ...
@overload
def hook(
    event: Literal["pre_tool_use"], **options: Unpack[AmendOptions]
) -> Callable[[t.PreToolUseHook], t.PreToolUseHook]: ...
@overload
def hook(
    event: Literal["permission_request"], **options: Unpack[AmendOptions]
) -> Callable[[t.PermissionRequestHook], t.PermissionRequestHook]: ...
@overload
def hook(
    event: Literal["permission_denied"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PermissionDeniedHook], t.PermissionDeniedHook]: ...
@overload
def hook(
    event: Literal["post_tool_use"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PostToolUseHook], t.PostToolUseHook]: ...
@overload
def hook(
    event: Literal["post_tool_use_failure"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PostToolUseFailureHook], t.PostToolUseFailureHook]: ...
@overload
def hook(
    event: Literal["tool_result"], **options: Unpack[AmendOptions]
) -> Callable[[t.ToolResultHook], t.ToolResultHook]: ...
@overload
def hook(
    event: Literal["tool_path"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ToolPathHook], t.ToolPathHook]: ...
@overload
def hook(event: Literal["stop"], **options: Unpack[MarkerOptions]) -> Callable[[t.StopHook], t.StopHook]: ...
@overload
def hook(
    event: Literal["stop_failure"], **options: Unpack[MarkerOptions]
) -> Callable[[t.StopFailureHook], t.StopFailureHook]: ...
@overload
def hook(
    event: Literal["subagent_start"], **options: Unpack[AmendOptions]
) -> Callable[[t.SubagentStartHook], t.SubagentStartHook]: ...
@overload
def hook(
    event: Literal["subagent_started"], **options: Unpack[MarkerOptions]
) -> Callable[[t.SubagentStartedHook], t.SubagentStartedHook]: ...
@overload
def hook(
    event: Literal["subagent_stop"], **options: Unpack[MarkerOptions]
) -> Callable[[t.SubagentStopHook], t.SubagentStopHook]: ...
@overload
def hook(
    event: Literal["pre_compact"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PreCompactHook], t.PreCompactHook]: ...
@overload
def hook(
    event: Literal["compact_stage"], **options: Unpack[MarkerOptions]
) -> Callable[[t.CompactStageHook], t.CompactStageHook]: ...
@overload
def hook(
    event: Literal["post_compact"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PostCompactHook], t.PostCompactHook]: ...
@overload
def hook(
    event: Literal["notification"], **options: Unpack[MarkerOptions]
) -> Callable[[t.NotificationHook], t.NotificationHook]: ...
@overload
def hook(
    event: Literal["task_completed"], **options: Unpack[MarkerOptions]
) -> Callable[[t.TaskCompletedHook], t.TaskCompletedHook]: ...
@overload
def hook(
    event: Literal["teammate_idle"], **options: Unpack[MarkerOptions]
) -> Callable[[t.TeammateIdleHook], t.TeammateIdleHook]: ...
@overload
def hook(
    event: Literal["config_change"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ConfigChangeHook], t.ConfigChangeHook]: ...
@overload
def hook(
    event: Literal["personality_switch"], **options: Unpack[AmendOptions]
) -> Callable[[t.PersonalitySwitchHook], t.PersonalitySwitchHook]: ...
@overload
def hook(
    event: Literal["message_claim"], **options: Unpack[MarkerOptions]
) -> Callable[[t.MessageClaimHook], t.MessageClaimHook]: ...
@overload
def hook(
    event: Literal["message_dispatch"], **options: Unpack[MarkerOptions]
) -> Callable[[t.MessageDispatchHook], t.MessageDispatchHook]: ...
@overload
def hook(
    event: Literal["message_send"], **options: Unpack[AmendOptions]
) -> Callable[[t.MessageSendHook], t.MessageSendHook]: ...
@overload
def hook(
    event: Literal["message_received"], **options: Unpack[MarkerOptions]
) -> Callable[[t.MessageReceivedHook], t.MessageReceivedHook]: ...
@overload
def hook(
    event: Literal["message_sent"], **options: Unpack[MarkerOptions]
) -> Callable[[t.MessageSentHook], t.MessageSentHook]: ...
@overload
def hook(
    event: Literal["error_intercept"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ErrorInterceptHook], t.ErrorInterceptHook]: ...
@overload
def hook(
    event: Literal["error_recover"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ErrorRecoverHook], t.ErrorRecoverHook]: ...
@overload
def hook(
    event: Literal["error_transform"], **options: Unpack[AmendOptions]
) -> Callable[[t.ErrorTransformHook], t.ErrorTransformHook]: ...
@overload
def hook(
    event: Literal["error_log"], **options: Unpack[MarkerOptions]
) -> Callable[[t.ErrorLogHook], t.ErrorLogHook]: ...
@overload
def hook(
    event: Literal["telemetry"], **options: Unpack[MarkerOptions]
) -> Callable[[t.TelemetryHook], t.TelemetryHook]: ...
@overload
def hook(
    event: Literal["custom_log"], **options: Unpack[MarkerOptions]
) -> Callable[[t.CustomLogHook], t.CustomLogHook]: ...
@overload
def hook(event: Literal["metrics"], **options: Unpack[MarkerOptions]) -> Callable[[t.MetricsHook], t.MetricsHook]: ...
@overload
def hook(
    event: Literal["performance"], **options: Unpack[MarkerOptions]
) -> Callable[[t.PerformanceHook], t.PerformanceHook]: ...
# Overlaps with the next one on purpose: its return type accepts no function, which makes type checkers report an error.
@overload
def hook(  # type: ignore[overload-overlap]
    event: t.Unchanging, *, amends: bool, **options: Unpack[MarkerOptions]
) -> Callable[[t.HasNothingToAmend], t.HasNothingToAmend]: ...
@overload
def hook(event: str | list[str], **options: Unpack[AmendOptions]) -> Callable[[t.AnyHook], t.AnyHook]: ...
def hook(
    event: str | list[str],
    *,
    match: Match | None = None,
    id: str | None = None,  # noqa: A002 - the setting's name everywhere
    priority: int = 100,
    timeout: float | None = None,
    description: str = "",
    enabled: bool = True,
    observe: bool = False,
    optional: bool = False,
    amends: bool = False,
    config: dict[str, Any] | None = None,
    runtime: Runtime = "trio",
) -> Callable[[Any], Any]:
    """Mark a `def` or `async def` as a hook of `event`, or of each event in a list.  Markers stack.

    The function takes one event and returns None (no opinion) or a verdict that the event allows.  `timeout` is in
    seconds; `runtime` selects the runtime of an `async def`; on a gate, a hook that `amends` runs before the guards,
    which judge its changes.

    Raises:
        TypeError: an argument has the wrong type, or the decorated object is not a plain function.
        ValueError: an argument is out of range.
    """
    settings = Marker(
        event="",
        match=_checked_match(match),
        id=id if id is None else _text("id", id),
        priority=_checked_priority(priority),
        timeout=_checked_timeout(timeout),
        description=_text("description", description, may_be_empty=True),
        enabled=_flag("enabled", enabled),
        observe=_flag("observe", observe),
        optional=_flag("optional", optional),
        amends=_flag("amends", amends),
        config=_checked_config(config),
        runtime=_checked_runtime(runtime),
    )
    markers = tuple(replace(settings, event=name) for name in _checked_events(event))

    def mark(function: Any) -> Any:
        if not isinstance(function, FunctionType):
            raise TypeError(f"@hook marks a def or an async def, not a {type(function).__name__!r}")
        if function.__code__.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR):
            raise TypeError(f"{function.__name__} yields, so it cannot return a verdict")
        own = tuple(replace(marker) for marker in markers)  # separate markers for each use of one @hook(...)
        ledger.note(function, own)
        # Decorators apply from the bottom up, but markers are listed from the top down.
        earlier = getattr(function, "__hooklatch_markers__", ())
        function.__dict__["__hooklatch_markers__"] = (*own, *earlier)
        if decorator is not None:
            decorator.is_applied = True
        return function

    decorator = ledger.expect(mark)
    return mark


def _checked_events(event: object) -> list[str]:
    if isinstance(event, FunctionType):
        raise TypeError('@hook needs the event: write @hook("pre_tool_use")')
    if isinstance(event, str):
        return [_text("event", event)]
    if not isinstance(event, list):
        raise TypeError(f"event is a str or a list of str, not a {type(event).__name__!r}")
    names = [_text("event", name) for name in cast("list[object]", event)]
    if not names:
        raise ValueError("event is an empty list; name at least one event")
    if len(set(names)) < len(names):
        raise ValueError(f"event names one event twice: {names!r}")
    return names


def _checked_match(match: object) -> str | list[str] | dict[str, Any] | None:
    if match is None:
        return None
    if isinstance(match, str):
        return _text("match", match)
    if isinstance(match, list):
        names = [_text("match", name) for name in cast("list[object]", match)]
        if not names:
            raise ValueError("match is an empty list, which matches nothing; leave it out to match all")
        return names
    if isinstance(match, Mapping):
        return _checked_pattern(dict(cast("Mapping[object, object]", match)))
    raise TypeError(f"match is a str, a list of str or a dict, not a {type(match).__name__!r}")


def _checked_pattern(pattern: dict[object, object]) -> dict[str, Any]:
    match pattern:
        case {"glob": glob, **others} if not others:
            return {"glob": _text("match glob", glob)}
        case {"regex": regex, "search": search, **others} if not others:
            return {"regex": _text("match regex", regex), "search": _flag("match search", search)}
        case {"regex": regex, **others} if not others:
            return {"regex": _text("match regex", regex)}
        case _:
            raise ValueError(
                f'match is {pattern!r}; write {{"glob": "mcp__*"}}, {{"regex": "Edit|Write"}} '
                'or {"regex": "Edit", "search": True}'
            )


def _checked_priority(priority: object) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"priority is an int, not a {type(priority).__name__!r}")
    if not 0 <= priority <= 1000:
        raise ValueError(f"priority is {priority}; it goes from 0 to 1000, and higher ones are asked first")
    return priority


def _checked_timeout(timeout: object) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is a number of seconds, not a {type(timeout).__name__!r}")
    if not 0 < timeout <= MAX_TIMEOUT:
        raise ValueError(
            f"timeout is {timeout}; it is in seconds, not milliseconds: more than 0, at most {MAX_TIMEOUT:g}"
        )
    return float(timeout)


def _checked_config(config: object) -> dict[str, Any] | None:
    if config is None:
        return None
    if not isinstance(config, dict):
        raise TypeError(f"config is a dict, not a {type(config).__name__!r}")
    try:
        check_plain(cast("object", config), "config")
    except GarbageError as error:
        raise ValueError(str(error)) from None
    return cast("dict[str, Any]", config)


def _checked_runtime(runtime: object) -> Runtime:
    if runtime == "trio":
        return "trio"
    if runtime == "asyncio":
        return "asyncio"
    raise ValueError(f"runtime is {runtime!r}; write 'trio' or 'asyncio'")


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not a {type(value).__name__!r}")
    return value


def _text(name: str, value: object, *, may_be_empty: bool = False) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not a {type(value).__name__!r}")
    if not value and not may_be_empty:
        raise ValueError(f"{name} is empty")
    return value

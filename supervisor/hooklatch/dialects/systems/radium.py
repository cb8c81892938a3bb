"""The Radium dialect: thirteen hook types by priority, and a list with one result for each hook as answer."""

from __future__ import annotations

from typing import Any, Final

from hooklatch.dialects.dialect import Answers, Dialect, Feed, NativeEvent, feed

__all__ = ["RADIUM"]

MODEL = {"model_id": "model_id"}
REQUEST = {**MODEL, "input": "request.input", "request_modifications": "request.request_modifications"}
RESPONSE = {**MODEL, "response": "response"}
CALL = {"tool_name": "tool_name", "arguments": "tool_input"}
DONE = {**CALL, "result": "tool_response"}
ERROR = {
    "error_type": "error_type",
    "error_message": "message",
    "error_source": "source",
    "error_data": "data",
}
DATA = {"event_type": "event_type", "data": "data", "metadata": "metadata"}
STOP = {"deny": "stop"}  # should_continue = false, which all thirteen types can answer
LAST: Final[dict[str, Any]] = {"view": "original", "combine": "last_wins"}


def typed(name: str, *feeds: Feed, words: dict[str, str] = STOP, patch: dict[str, str] | None = None) -> NativeEvent:
    return NativeEvent(feeds=feeds, answers=Answers(words=words, patch=patch or {}), aliases=(name,))


def told(event: str, keys: dict[str, str], **axes: Any) -> Feed:
    return feed(event, keys, flow="sequential", **axes)


RADIUM: Final = Dialect(
    name="radium",
    style="results",
    by_priority=True,
    registration={"name": "id", "type": "event"},
    unkept={"script": 'Radium never runs it; write run = "file.py:function", or served = true'},
    events={
        "BeforeModel": typed(
            "before_model",
            feed("pre_model", REQUEST, **LAST),
            told("model_request", REQUEST, when="passed"),
            patch={
                "request.input": "modified_input",
                "request.request_modifications": "request_modifications",
            },
        ),
        "AfterModel": typed(
            "after_model",
            feed("post_model", RESPONSE, **LAST),
            told("model_response", RESPONSE),
            patch={"response": "response"},
        ),
        "BeforeTool": typed(
            "before_tool", feed("pre_tool_use", CALL, **LAST), patch={"tool_input": "modified_arguments"}
        ),
        "AfterTool": typed(
            "after_tool",
            feed("tool_result", DONE, **LAST),
            told("post_tool_use", DONE),
            patch={"tool_response": "modified_result"},
        ),
        "ToolSelection": typed("tool_selection", feed("tool_selection", {**CALL, "candidates": "candidates"})),
        "ErrorInterception": typed("error_interception", feed("error_intercept", ERROR), words={"claim": "stop"}),
        "ErrorTransformation": typed(
            "error_transformation", feed("error_transform", ERROR), patch={"message": "transformed_error"}
        ),
        "ErrorRecovery": typed("error_recovery", feed("error_recover", ERROR), words={"claim": "recovered_error"}),
        "ErrorLogging": typed("error_logging", told("error_log", ERROR)),
        "TelemetryCollection": typed("telemetry_collection", told("telemetry", DATA)),
        "CustomLogging": typed("custom_logging", told("custom_log", DATA)),
        "MetricsAggregation": typed("metrics_aggregation", told("metrics", DATA)),
        "PerformanceMonitoring": typed("performance_monitoring", told("performance", DATA)),
    },
)

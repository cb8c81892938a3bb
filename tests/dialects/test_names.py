"""Every name in the union table maps to its canonical event and back."""

import pytest

from dialects.samples import cases, dialects, label
from hooklatch.dialects.dialect import Dialect, UnknownNativeEventError
from hooklatch.dialects.find import find_dialect
from support.plays import CATALOGUE
from support.tables import table

COLUMNS = ("ethos", "exathena", "reasonix", "radium", "beam")
TABLE = """
session_start         | session_start         | SessionStart                | SessionStart       |                       | session_start
session_end           |                       | SessionEnd                  | SessionEnd         |                       | session_end
user_prompt_submit    |                       | UserPromptSubmit            | UserPromptSubmit   |                       | user_prompt_submit
prompt_build          | before_prompt_build   |                             |                    |                       |
pre_iteration         |                       | PreIteration                |                    |                       |
pre_model             |                       | ChatParams                  |                    | BeforeModel           |
post_model            |                       |                             | PostLLMCall        | AfterModel            |
model_request         | before_llm_call       | ChatParams                  |                    | BeforeModel           |
model_response        | after_llm_call        |                             |                    | AfterModel            |
tool_selection        |                       |                             |                    | ToolSelection         |
pre_tool_use          | before_tool_call      | PreToolUse                  | PreToolUse         | BeforeTool            | pre_tool_use
permission_request    |                       | PermissionRequest           | PermissionRequest  |                       | permission_request
permission_denied     |                       | PermissionDenied ToolDenied |                    |                       |
post_tool_use         | after_tool_call       | PostToolUse                 | PostToolUse        | AfterTool             | post_tool_use
post_tool_use_failure |                       | PostToolUseFailure          | PostToolUseFailure |                       | post_tool_use_failure
tool_result           |                       |                             |                    | AfterTool             |
call_mismatch         |                       |                             |                    |                       |
tool_path             | tool_end_with_path    |                             |                    |                       |
stop                  | agent_done            | Stop                        | Stop               |                       | stop
stop_failure          |                       | StopFailure                 | StopFailure        |                       |
subagent_start        | subagent_spawning     | SubagentStart               | PreSubagent        |                       | subagent_start
subagent_started      | subagent_spawned      | SubagentStart               |                    |                       | subagent_start
subagent_stop         | subagent_ended        | SubagentStop                | SubagentStop       |                       | subagent_stop
pre_compact           |                       | PreCompact                  | PreCompact         |                       | pre_compact
compact_stage         |                       | PreCompactStage             |                    |                       |
post_compact          |                       | PostCompact                 |                    |                       |
notification          |                       | Notification                | Notification       |                       | notification
task_completed        |                       |                             |                    |                       | task_completed
teammate_idle         |                       |                             |                    |                       | teammate_idle
user_prompt_expansion |                       |                             |                    |                       |
post_tool_batch       |                       |                             |                    |                       |
task_created          |                       |                             |                    |                       |
worktree_create       |                       |                             |                    |                       |
worktree_remove       |                       |                             |                    |                       |
pre_model_switch      |                       |                             |                    |                       |
elicitation           |                       |                             |                    |                       |
elicitation_result    |                       |                             |                    |                       |
config_change         |                       |                             |                    |                       | config_change
personality_switch    | personality_switched  |                             |                    |                       |
message_claim         | inbound_claim         |                             |                    |                       |
message_dispatch      | before_dispatch       |                             |                    |                       |
message_send          | message_sending       |                             |                    |                       |
message_received      | message_received      |                             |                    |                       |
message_sent          | message_sent          |                             |                    |                       |
error_intercept       |                       |                             |                    | ErrorInterception     |
error_transform       |                       |                             |                    | ErrorTransformation   |
error_recover         |                       |                             |                    | ErrorRecovery         |
error_log             |                       |                             |                    | ErrorLogging          |
telemetry             |                       |                             |                    | TelemetryCollection   |
custom_log            |                       |                             |                    | CustomLogging         |
metrics               |                       |                             |                    | MetricsAggregation    |
performance           |                       |                             |                    | PerformanceMonitoring |
"""  # noqa: E501 - a table is read by its columns
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
FEEDS = {  # native events that feed several, in order, and when
    ("exathena", "ChatParams"): [("pre_model", "always"), ("model_request", "passed")],
    ("exathena", "SubagentStart"): [("subagent_start", "always"), ("subagent_started", "passed")],
    ("radium", "BeforeModel"): [("pre_model", "always"), ("model_request", "passed")],
    ("radium", "AfterModel"): [("post_model", "always"), ("model_response", "always")],
    ("radium", "AfterTool"): [("tool_result", "always"), ("post_tool_use", "always")],
    ("beam", "subagent_start"): [("subagent_start", "always"), ("subagent_started", "passed")],
}


def test_the_table_has_a_row_for_every_event_of_the_catalogue() -> None:
    assert {row[0] for row in ROWS} == set(CATALOGUE)


@table("row", ROWS, ids=lambda row: row[0])
def test_names_lead_both_ways(row: list[str]) -> None:
    for name, cell in zip(COLUMNS, row[1:], strict=True):
        dialect = find_dialect(name)
        assert dialect is not None
        fed = [name for name, event in dialect.events.items() if any(feed.event == row[0] for feed in event.feeds)]
        assert fed == cell.split()


@pytest.mark.parametrize("dialect", dialects(), ids=label)
def test_a_dialect_has_no_name_that_the_table_lacks(dialect: Dialect) -> None:
    column = COLUMNS.index(dialect.name) + 1

    assert set(dialect.events) == {name for row in ROWS for name in row[column].split()}


@table(("dialect", "event"), cases(), ids=label)
def test_several_feeds_come_in_their_order(dialect: Dialect, event: str) -> None:
    feeds = [(feed.event, feed.when) for feed in dialect.events[event].feeds]

    assert len(feeds) == 1 or feeds == FEEDS[dialect.name, event]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    reasonix = find_dialect("reasonix")
    assert reasonix is not None

    with pytest.raises(UnknownNativeEventError, match="did you mean 'PreToolUse'"):
        reasonix.event("PreToolUsed")


def test_radium_types_have_the_spelling_of_its_configuration_too() -> None:
    radium = find_dialect("radium")
    assert radium is not None

    assert radium.resolve("before_tool") == "BeforeTool"

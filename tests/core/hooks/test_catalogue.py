"""The catalogue compared with a second copy of its table, and the rejection of invalid custom events."""

from typing import Any

import pytest

from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition, EventSpec, Field
from hooklatch.core.tables import InvalidTableError, read_table
from support.tables import table

WORDS = ["allow", "deny", "ask", "halt", "claim", "inject", "append", "resume", "value"]
LETTERS = dict(zip(WORDS, "ADKHCiarv", strict=True))

# event | model, combine | letters | patch | match | seconds | fields
TABLE = """
session_start | notify | H i | | source | 30 | source platform system_info
session_end | notify | | | | 30 | finish_reason reason result
user_prompt_submit | gate | D K H i | prompt params | prompt | 5 | prompt params turn
user_prompt_expansion | gate | D K H | | command_name | 5 | command_name command_args command_source \
expansion_type prompt
prompt_build | amend first_wins original | | prepend_system append_system override_system | | 5 | history personality_id
pre_iteration | amend | H i | | | 30 | iteration unproductive_iterations fingerprint
pre_model | gate | D H i | request | model_id | 5 | model_id request messages
post_model | amend last_wins | | response reasoning | model_id | 30 | model_id response reasoning
model_request | notify | | | model_id | 30 | model_id turn usage duration_ms finish_reason
model_response | notify | | | model_id | 30 | model_id turn usage duration_ms finish_reason
tool_selection | gate | D | tool_name | tool_name | 5 | tool_name tool_input tool_kind tool_args candidates
pre_tool_use | gate | A D K H i | tool_input | tool_name | 5 | tool_name tool_input tool_kind tool_args \
tool_use_id
permission_request | gate | A D K H | tool_input permissions | tool_name | 5 | tool_name tool_input tool_kind \
tool_args tool_use_id suggestions permission_id prompt_tool_name interrupt
permission_denied | notify | H i | | tool_name | 30 | tool_name tool_input tool_kind tool_args tool_use_id reason denial
post_tool_use | notify | H i a | | tool_name | 30 | tool_name tool_input tool_kind tool_args \
tool_response tool_use_id duration_ms
post_tool_use_failure | notify | H i a | | tool_name | 30 | tool_name tool_input tool_kind tool_args tool_use_id error \
is_interrupt content category
post_tool_batch | notify | H i | | | 30 | tool_calls
tool_result | gate | D H | tool_response | tool_name | 30 | tool_name tool_input tool_kind tool_args tool_response
tool_path | notify | | | tool_name | 30 | tool_name file_path working_dir
call_mismatch | notify | | | cause | 30 | cause tool_name tool_input tool_use_id decision_id reason
stop | notify | H r | | | 30 | finish_reason result last_assistant_message turn duration_ms stop_hook_active
stop_failure | notify | | | | 30 | finish_reason result error turn
subagent_start | gate | D K H i | prompt personality_id | agent_type | 5 | subagent_id agent_type prompt isolation
subagent_started | notify | i | | agent_type | 30 | subagent_id agent_type
subagent_stop | notify | H i r | | agent_type | 30 | subagent_id agent_type outcome result isolation transcript_path
pre_compact | gate | D K H i | | trigger | 30 | trigger estimate
compact_stage | notify | H i | | | 30 | stage estimate
post_compact | notify | H i | | | 30 | metadata
notification | notify | H i | | notification_type | 30 | message notification_type title content status category
task_created | gate | D K | | | 5 | task_id subject description teammate
task_completed | notify | r | | | 30 | task_id subject status
teammate_idle | notify | r | | | 30 | teammate
config_change | gate | D K | | source | 5 | source path change reload_type
worktree_create | gate | D K | worktree_path | name | 30 | name agent_type
worktree_remove | gate | D K | | | 5 | worktree_path
pre_model_switch | gate | A D K | | to_model | 5 | from_model to_model requested_model source context_tokens
elicitation | gate | A D K | content | mcp_server_name | 5 | mcp_server_name mode elicitation_id message url \
requested_schema
elicitation_result | gate | D K | content | mcp_server_name | 5 | mcp_server_name mode elicitation_id action content
personality_switch | amend first_wins original | | personality_id | to | 5 | from to
message_claim | claim | C v | | platform | 5 | platform chat_id text message
message_dispatch | claim | C v | | platform | 5 | platform chat_id text message
message_send | amend first_wins original | | message | | 5 | chat_id message
message_received | notify | | | | 30 | chat_id message_id message
message_sent | notify | | | | 30 | chat_id message_id message
error_intercept | claim | C v | | error_type | 30 | error_type message source data
error_recover | claim | C v | | error_type | 30 | error_type message source data
error_transform | amend first_wins original | | message | error_type | 30 | error_type message source
error_log | notify | | | error_type | 30 | error_type message source
telemetry | notify | | | event_type | 30 | event_type data metadata
custom_log | notify | | | event_type | 30 | event_type data metadata
metrics | notify | | | event_type | 30 | event_type data metadata
performance | notify | | | event_type | 30 | event_type data metadata
""".replace("\\\n", "")
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]
STANDARD = Catalogue.standard()


def render(spec: EventSpec) -> list[set[str]]:
    view = spec.view if spec.view == "original" else ""
    return [
        {spec.name},
        set(f"{spec.model} {spec.combine or ''} {view}".split()),
        {LETTERS[word] for word in spec.verdicts | spec.outputs},
        set(spec.patch),
        {spec.match} if spec.match else set(),
        {f"{spec.timeout:g}"},
        {field.name for field in spec.fields},
    ]


@table("row", ROWS, ids=[row[0] for row in ROWS])
def test_an_event_is_as_the_table_says(row: list[str]) -> None:
    spec = STANDARD[row[0]]

    assert render(spec) == [set(cell.split()) for cell in row]


def test_the_catalogue_has_the_rows_of_the_table_and_no_others() -> None:
    assert list(STANDARD) == [row[0] for row in ROWS]


@table("spec", STANDARD.values(), ids=list(STANDARD))
def test_an_event_fails_closed_exactly_where_it_can_deny(spec: EventSpec) -> None:
    assert spec.fails_closed == ("deny" in spec.verdicts) == spec.is_gate


@table("spec", STANDARD.values(), ids=list(STANDARD))
def test_hooks_run_at_once_on_notifications_alone(spec: EventSpec) -> None:
    assert (spec.flow == "concurrent") == (spec.model == "notify")


@table("spec", STANDARD.values(), ids=list(STANDARD))
def test_last_is_for_amend_and_claim(spec: EventSpec) -> None:
    assert spec.allows_last == (spec.model in ("amend", "claim"))


def test_a_refused_tool_call_fires_permission_denied() -> None:
    followed = {name: spec.on_refusal for name, spec in STANDARD.items() if spec.on_refusal}

    assert followed == {"pre_tool_use": "permission_denied", "permission_request": "permission_denied"}


@table("spec", STANDARD.values(), ids=list(STANDARD))
def test_each_event_says_in_one_line_when_it_is_fired(spec: EventSpec) -> None:
    assert spec.when.endswith(".")
    assert "\n" not in spec.when


@table("spec", STANDARD.values(), ids=list(STANDARD))
def test_a_match_names_a_field_of_its_event(spec: EventSpec) -> None:
    assert spec.match is None or spec.match in {field.name for field in spec.fields}


def test_fields_carry_their_types_as_text() -> None:
    fields = STANDARD["personality_switch"].fields

    assert fields == (Field("from", "str | None"), Field("to", "str"))


def custom(**definition: Any) -> EventSpec:
    written = {"name": "deploy_requested", "model": "gate", "verdicts": ["deny"], **definition}
    return STANDARD.with_custom([read_table(written, EventDefinition, "event")])["deploy_requested"]


def test_a_custom_gate_fails_closed() -> None:
    spec = custom(verdicts=["deny", "ask"], match="target")

    assert spec.fails_closed
    assert (spec.flow, spec.view, spec.timeout, spec.match) == ("sequential", "threaded", 30.0, "target")
    assert spec.fields == (Field("target", "str"),)


def test_a_custom_claim_is_answered_with_a_value() -> None:
    assert custom(model="claim", verdicts=["claim"]).outputs == {"value"}


@pytest.mark.parametrize(
    ("axes", "combine", "view"),
    [
        ({}, None, "threaded"),
        ({"patch": ["note"]}, "last_wins", "threaded"),
        ({"patch": ["note"], "combine": "first_wins"}, "first_wins", "original"),
        ({"patch": ["note"], "combine": "first_wins", "view": "threaded"}, "first_wins", "threaded"),
    ],
)
def test_a_custom_amend_merges_as_it_says(axes: dict[str, Any], combine: str | None, view: str) -> None:
    spec = custom(model="amend", verdicts=[], **axes)

    assert (spec.combine, spec.view) == (combine, view)


def test_fields_may_be_a_list_or_have_types() -> None:
    assert custom(fields=["target", "by"], match="target").fields == (
        Field("target", "str"),
        Field("by", "Any"),
    )
    assert custom(fields={"target": "str", "by": "int"}).fields == (Field("target", "str"), Field("by", "int"))


def test_a_custom_event_leaves_the_standard_catalogue_as_it_was() -> None:
    custom()

    assert "deploy_requested" not in Catalogue.standard()


@table(
    ("axes", "reason"),
    [
        ({"name": "pre_tool_use"}, "choose another"),
        ({"name": "Deploy"}, "lower-case words joined by underscores"),
        ({"name": "deploy-it"}, "lower-case words joined by underscores"),
        ({"name": ""}, "lower-case words joined by underscores"),
        ({"name": 7}, "name is a string, not 7"),
        ({"model": "gates"}, "did you mean 'gate'?"),
        ({"model": "vote"}, "model is one of 'gate', 'notify', 'amend', 'claim', not 'vote'"),
        ({"model": 7}, "model is one of 'gate', 'notify', 'amend', 'claim', not 7"),
        ({"verdict": ["deny"]}, "did you mean 'verdicts'?"),
        ({"flow": "concurrent"}, "has no key 'flow'; it takes name, model"),
        ({"on_crash": "allow"}, "has no key 'on_crash'; it takes name, model"),
        ({"verdicts": []}, "put 'deny' into verdicts"),
        ({"verdicts": ["ask"]}, "put 'deny' into verdicts"),
        ({"verdicts": "deny"}, "verdicts is a list of strings, not 'deny'"),
        ({"verdicts": ["denies"]}, "did you mean 'deny'?"),
        ({"verdicts": ["deny", "inject"]}, 'write outputs = ["inject"]'),
        ({"verdicts": ["deny", "amend"]}, "in patch"),
        ({"verdicts": ["deny", "claim"]}, 'write model = "claim"'),
        ({"outputs": ["injects"]}, "did you mean 'inject'?"),
        ({"outputs": ["value"]}, 'write model = "claim"'),
        ({"model": "notify"}, "only a gate can say 'deny'"),
        ({"model": "amend", "verdicts": ["ask"]}, "only a gate can say 'ask'"),
        ({"model": "claim", "verdicts": []}, 'write verdicts = ["claim"]'),
        ({"model": "notify", "verdicts": [], "patch": ["note"]}, 'write model = "amend"'),
        ({"combine": "last_wins"}, "combine says how an amend event merges"),
        ({"combine": "all_win"}, "combine is one of 'first_wins', 'last_wins', not 'all_win'"),
        ({"view": "original"}, "view is for amend events"),
        ({"match": "target", "fields": ["targets"]}, "did you mean 'targets'?"),
        ({"match": ""}, "empty name"),
        ({"timeout": 0}, "a number over 0 and at most 600"),
        ({"timeout": 5000}, "seconds, not milliseconds"),
        ({"timeout": True}, "timeout is a number over 0"),
    ],
)
def test_a_custom_event_that_cannot_stand_is_refused_with_what_to_write(axes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidTableError) as caught:
        custom(**axes)

    assert reason in caught.value.reason
    assert caught.value.reason in str(caught.value)


def test_a_custom_event_without_a_model_is_refused() -> None:
    with pytest.raises(InvalidTableError, match="it has no model; write one of 'gate', 'notify', 'amend', 'claim'"):
        read_table({"name": "deploy_requested"}, EventDefinition, "event")


def test_two_custom_events_of_one_name_are_refused() -> None:
    definition = EventDefinition(name="deploy_requested", model="notify")

    with pytest.raises(InvalidTableError, match="choose another"):
        STANDARD.with_custom([definition, definition])

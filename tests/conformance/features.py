"""Which test shows each feature of the five systems.  Knows names of tests and ids of rows; runs none."""

__all__ = ["FEATURES"]

# System, feature, and the tests or rows that show it.
FEATURES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Ethos", "void hooks", ("ET-01", "ET-02")),
    ("Ethos", "modifying: the first value of a key wins, later hooks fill gaps", ("ET-03",)),
    ("Ethos", "claiming", ("ET-04",)),
    ("Ethos", "the point decides the model", ("test_a_registration_that_is_wrong_in_its_dialect_is_refused",)),
    ("Ethos", "an allow-list of plugins a session, built-ins always on", ("ET-06", "ET-07", "ET-08")),
    ("Ethos", "a registration's cleanup", ("ET-43", "ET-44")),
    ("Ethos", "a whole plugin is taken out", ("ET-05", "test_a_whole_plugin_is_switched_by_its_name")),
    ("Ethos", "{error} rejects, and the error tool-result", ("ET-20", "test_the_block_needs_the_id_of_the_call")),
    ("Ethos", "has_handlers, posture: gated, or ungated and said once", ("ET-14", "ET-15", "ET-16")),
    ("Ethos", "three refusals in a row can halt", ("ET-18", "test_three_refusals_in_a_row_ask_for_a_halt")),
    ("ExAthena", "matcher groups", ("XA-01", "XA-10")),
    ("ExAthena", "all its events", ("XA-11",)),
    ("ExAthena", "ok, deny, halt, inject, transform, augment", ("XA-02", "XA-03", "XA-06", "XA-14", "XA-15")),
    ("ExAthena", "several augments joined, halt beating augment", ("XA-07", "XA-09")),
    ("ExAthena", "sub-agents inherit the parent's gates", ("XA-30",)),
    ("ExAthena", "typed denials", ("XA-17", "XA-27")),
    ("ExAthena", "implicit LSP diagnostics", ("XA-46", "test_errors_and_warnings_are_appended_with_the_relative_path")),
    ("ExAthena", "telemetry of diagnostics", ("XA-49", "test_diagnostics_come_first_and_are_told_of")),
    ("Reasonix", "shell hooks from TOML", ("test_a_command_that_exits_with_two_denies_with_its_standard_error",)),
    ("Reasonix", "hooks from settings.json", ("test_claudes_and_reasonix_settings_are_hooks_as_they_stand",)),
    ("Reasonix", "project and global, in that order", ("RX-02",)),
    ("Reasonix", "the table of exit codes", ("RX-11", "RX-12", "RX-13", "RX-14")),
    ("Reasonix", "output caps", ("test_output_over_256_kib_is_cut_and_marked",)),
    ("Reasonix", "5 s and 30 s defaults", ("RX-22",)),
    ("Reasonix", "SIGTERM, then SIGKILL for the group", ("test_sigterm_comes_first_so_that_a_command_can_clean_up",)),
    ("Reasonix", "bounded drain", ("test_a_grandchild_that_holds_the_pipes_delays_nothing",)),
    ("Reasonix", "anchored matching", ("RX-08",)),
    ("Reasonix", "a bad matcher is inactive and visible", (
        "RX-09", "test_a_bad_matcher_in_a_settings_file_is_inactive_visible_and_denies",
    )),
    ("Reasonix", "bad settings take nothing down", (
        "test_a_broken_settings_file_takes_nothing_down_and_says_what_is_wrong",
    )),
    ("Reasonix", "wish: a structured rewrite", ("test_a_command_can_rewrite_the_input",)),
    ("Reasonix", "wish: timings", ("test_status_tells_how_long_hooks_and_events_took",)),
    ("Reasonix", "wish: an event before sub-agents", ("XA-31", "BA-24")),
    ("Reasonix", "import", ("test_an_imported_guard_refuses_in_a_daemon",)),
    ("Reasonix", "the page's own examples", (
        "test_dangerous_commands_are_blocked_and_others_pass",
        "test_any_tool_is_blocked_during_a_merge_and_none_outside_one",
        "test_prompts_are_blocked_once_the_day_has_cost_five_dollars",
        "test_a_file_is_formatted_after_an_edit",
        "test_what_has_changed_is_committed_when_the_turn_ends",
    )),
    ("Radium", "priorities", ("test_priority_orders_within_a_layer_and_the_order_of_registration_breaks_the_tie",)),
    ("Radium", "enable and disable survive a reload", (
        "test_a_switch_survives_reload_and_restart",
    )),
    ("Radium", "early termination", ("test_last_ends_the_chain_of_an_amend_event",)),
    ("Radium", "one failing hook never stops the rest", (
        "test_a_failing_amender_contributes_nothing_and_the_next_one_runs",
    )),
    ("Radium", "TOML configuration that creates hooks", ("RD-51",)),
    ("Radium", "discovery from extensions", ("test_the_example_installs",)),
    ("Radium", "composition", (
        "test_a_chain_shows_each_function_what_the_one_before_it_amended",
        "test_of_several_verdicts_the_strictest_counts",
        "test_a_conditional_hook_has_no_opinion_where_the_condition_does_not_hold",
    )),
    ("Radium", "the profiler's figures", ("test_status_tells_how_long_hooks_and_events_took",)),
    ("BeamAgent", "all 15 events", ("BA-03",)),
    ("BeamAgent", "ok, deny, ask", ("BA-16", "BA-19", "BA-21", "BA-22")),
    ("BeamAgent", "threading of the context", ("BA-41", "BA-42")),
    ("BeamAgent", "exact removal, idempotent", ("test_unregistering_removes_exactly_that_hook_and_is_idempotent",)),
    ("BeamAgent", "bad patterns refused at registration", (
        "test_a_broken_pattern_is_refused_when_it_is_registered",
    )),
    ("BeamAgent", "a reload bus with a monotonic version", (
        "test_every_revision_is_announced_in_order_and_chained_to_the_one_before",
    )),
    ("BeamAgent", "crash texts that name the hook", ("BA-36", "BA-38")),
)  # fmt: skip

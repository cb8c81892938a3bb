"""The tools that hosts bring beside those that have a kind, by their own names.

    HARMLESS     a host, and its tools that run no command, write no file of a project and reach nothing
    UNCLEAR      a host, and its tools that may do either: guards judge each of their texts

`make hosts` compares this with the tools that each program offers its model, at the versions in
`tests/real_hosts/programs.py` (of November 2026).  Tools that a program offers only at times are from its package.
The tools of Cursor and others are from documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hooklatch_worker.author.tools import KIND_OF

__all__ = ["HARMLESS", "NAMES", "OF_HOSTS", "split_names_text"]


def split_names_text(text: str) -> frozenset[str]:
    """Return the words of a text that is a list of names."""
    return frozenset(re.findall(r"\w+", text))


HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "claude-code": split_names_text("""
        AskUserQuestion BashOutput Brief CronCreate CronDelete CronList DeferredToolPlaceholder EnterPlanMode
        EnterWorktree ExitPlanMode ExitWorktree KillBash KillShell LSP ListAgents ListMcpResourcesTool
        PushNotification ReadMcpResourceDirTool ReadMcpResourceTool RemoteTrigger ReportFindings ScheduleWakeup
        SendMessage SendUserMessage Skill SlashCommand StructuredOutput SuggestConnectors SuggestPluginInstall
        SuggestSkills TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TeamCreate TeamDelete TodoRead
        TodoWrite ToolSearch WaitForMcpServers
    """),
    "codex": split_names_text("""
        close_agent create_goal get_goal list_agents list_mcp_resource_templates list_mcp_resources read_mcp_resource
        request_permissions request_user_input resume_agent send_input tool_search tool_suggest update_goal
        update_plan wait wait_agent
    """),
    "copilot": split_names_text("""
        ask_user exit_plan_mode fetch_copilot_cli_documentation list_agents list_bash list_powershell lsp read_agent
        read_bash read_powershell report_intent session_store_sql skill sql stop_bash stop_powershell store_memory
        task_complete update_todo write_agent
    """),
    "cursor": split_names_text("CreatePlan ReadLints SwitchMode TodoWrite UpdateCurrentStep AskQuestion"),
    "gemini": split_names_text("""
        activate_skill ask_user cli_help codebase_investigator complete_task enter_plan_mode exit_plan_mode
        get_internal_docs list_background_processes list_mcp_resources read_background_output read_many_files
        read_mcp_resource save_memory tracker_add_dependency tracker_create_task tracker_get_task tracker_list_tasks
        tracker_update_task tracker_visualize update_topic write_todos
    """),
    "opencode": split_names_text("invalid lsp plan_enter plan_exit question skill todoread todowrite"),
    "qwen": split_names_text("""
        ask_user_question cron_create cron_delete cron_list exit_plan_mode lsp save_memory send_message skill
        structured_output task_stop todo_write tool_search
    """),
    "kimi": split_names_text("CreateGoal GetGoal SetGoalBudget TodoList UpdateGoal WaitFor"),
    "grok": split_names_text("""
        ask_user_question enter_plan_mode exit_plan_mode get_command_or_subagent_output kill_command_or_subagent
        scheduler_create scheduler_delete scheduler_list search_tool send_feedback todo_write
    """),
    "letta": split_names_text("SendAgentMessage SetWorkingDirectory"),
    "cline": split_names_text("""
        ask_question skills submit_and_exit team_attach_outcome_fragment team_await_runs team_broadcast
        team_cancel_run team_cleanup team_create_outcome team_finalize_outcome team_list_outcomes team_list_runs
        team_log_update team_mission_log team_read_mailbox team_review_outcome_fragment team_run_task
        team_send_message team_shutdown_teammate team_spawn_teammate team_status team_task
    """),
    "goose": split_names_text("""
        extensionmanager__list_resources extensionmanager__manage_extensions extensionmanager__read_resource
        extensionmanager__search_available_extensions load load_skill
    """),
    "others": split_names_text("think thinking sequentialthinking"),
}
UNCLEAR: Final = split_names_text("""
    Config REPL SendUserFile apps__create_app apps__delete_app apps__iterate_app apps__list_apps
    fetch_web_content read_image image_edit image_gen image_to_video read_files reference_to_video search_codebase
    memory session_title use_tool workflow
    WebBrowser Workflow batch exec js_repl str_replace_based_edit_tool str_replace_editor
    tool_call
""") | {"write-process"}
OF_HOSTS: Final = frozenset[str]().union(*HARMLESS.values())
NAMES: Final = OF_HOSTS | UNCLEAR | KIND_OF.keys()

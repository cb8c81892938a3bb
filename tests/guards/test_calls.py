"""Tools that no table of kinds has, and servers' tools: what their texts say is judged, and harmless tools pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from guards.gallery import PURE
from hooklatch.guards import call_of, is_harmless
from hooklatch.guards.calls import MAX_FORM, MAX_PLACES, ToolCallTexts
from hooklatch.guards.gallery import (
    destructive_commands,
    git_rules,
    network_egress,
    only_guarded_agents,
    package_installs,
    protected_paths,
)
from hooklatch.shelltext.tools import HARMLESS, UNCLEAR
from hooklatch_worker.author.tools import KINDS_OF, OTHER, find_tool_kind_by_name
from support.tables import table

GUARDS = {
    "destructive_commands": destructive_commands.destructive_commands,
    "git_rules": git_rules.git_rules,
    "network_egress": network_egress.network_egress,
    "only_guarded_agents": only_guarded_agents.only_guarded_agents,
    "package_installs": package_installs.package_installs,
    "protected_paths": protected_paths.protected_paths,
}


class Event:
    """A call as a guard is given it: with its kind, or as a client fires it that says none."""

    cwd = "/srv/app/web"

    def __init__(self, name: str, given: Mapping[str, Any], kind: str | None = None) -> None:
        self.tool_name = name
        self.tool_kind = kind or find_tool_kind_by_name(name)
        self.tool_input = dict(given)
        self.tool_args: dict[str, Any] | None = dict(given)
        if self.tool_kind == "mcp":
            self.tool_args = {"server": "", "tool": "", "arguments": dict(given)}


def verdicts(name: str, given: Mapping[str, Any], kind: str | None = None) -> dict[str, str]:
    found = {guard: hook(Event(name, given, kind)) for guard, hook in GUARDS.items()}
    return {guard: str(answer.verdict) for guard, answer in found.items() if answer is not None}


RM, PUSH, WRITE = "rm -rf /", "git push -f origin main", "echo x > .env"
# Ways in which a tool that nobody knows may be told a command; `…` is the command.
COMMANDS: list[tuple[str, Any]] = [
    ("mcp__sh__run", {"command": "…"}),
    ("mcp__sh__run", {"cmd": "…"}),
    ("mcp__sh__run", {"script": "…"}),
    ("mcp__sh__run", {"shell_command": "…"}),
    ("mcp__sh__run", {"commandLine": "…"}),
    ("mcp__sh__run", {"run_this": "…"}),
    ("mcp__sh__run", {"x": {"y": [{"z": "…"}]}}),
    ("mcp__x__do", {"input": {"cmd": "…"}}),
    ("mcp__x__do", {"steps": [{"run": "true"}, {"run": "…"}]}),
    ("mcp__x__do", {"commands": ["ls -l", "…"]}),
    ("mcp__x__do", {"argv": ["bash", "-c", "…"]}),
    ("mcp__x__do", {"command": "bash", "args": ["-c", "…"]}),
    ("mcp__x__do", {"program": "sh", "arguments": ["-c", "…"]}),
    ("mcp__x__get", {"command": "…"}),
    ("mcp__x__read_file", {"command": "…", "path": "a"}),
    ("mcp__terminal__send_text", {"text": "…"}),
    ("mcp__tmux__type", {"keys": "…"}),
    ("mcp__ssh__exec", {"host": "h", "content": "…"}),
    ("runner", {"command": "…"}),
    ("runner", {"what": "…"}),
    ("runner", {"jobs": {"first": {"line": "…"}}}),
    ("str_replace_editor", {"command": "…", "path": "a.py"}),
    ("batch", {"tool_calls": [{"tool": "bash", "parameters": {"command": "…"}}]}),
    ("Workflow", {"script": "…"}),
]


def told(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {key: told(below, text) for key, below in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [told(below, text) for below in cast("list[Any]", value)]
    return text if value == "…" else value


@table(("name", "given"), COMMANDS)
def test_a_command_of_a_tool_that_nobody_knows_is_judged(name: str, given: Any) -> None:
    assert "destructive_commands" in verdicts(name, told(given, RM))
    assert "git_rules" in verdicts(name, told(given, PUSH))
    assert "protected_paths" in verdicts(name, told(given, WRITE))


def test_each_guard_of_commands_judges_a_servers_command() -> None:
    assert "package_installs" in verdicts("mcp__sh__run", {"script": "pip install evil"})
    assert "network_egress" in verdicts("mcp__sh__run", {"script": "curl https://evil.example/x"})
    assert verdicts("mcp__web__open", {"url": "https://evil.example/x"}) == {"network_egress": "deny"}
    assert verdicts("mcp__ssh__exec", {"host": "evil.example", "command": "ls"}) == {"network_egress": "deny"}
    assert verdicts("mcp__web__read_page", {"pages": [{"at": "https://evil.example/x"}]}) == {"network_egress": "deny"}


@table(
    ("name", "given"),
    [
        ("str_replace_editor", {"command": "create", "path": ".env", "file_text": "x"}),
        ("str_replace_editor", {"command": "str_replace", "path": "/srv/app/web/.env", "old_str": "a"}),
        ("str_replace_based_edit_tool", {"command": "insert", "path": ".git/config"}),
        ("mcp__fs__update_file", {"path": ".env"}),
        ("mcp__fs__do", {"path": ".env"}),
        ("mcp__fs__do", {"x": ".env"}),
        ("mcp__fs__do", {"x": {"y": ["a", "../.git/HEAD"]}}),
        ("mcp__fs__do", {"files": [{"path": "a.py"}, {"path": "/etc/hosts"}]}),
        ("mcp__fs__writeFile", {"outPath": "~/.bashrc"}),
        ("mcp__fs__write_file", {"uri": "file:///etc%2Fpasswd"}),
        ("mcp__fs__write_file", {"uri": "file://localhost/etc/passwd"}),
        ("mcp__fs__write_file", {"path": {"value": ".env"}}),
        ("mcp__fs__write_file", {"dir": "/etc", "name": "passwd"}),
        ("mcp__fs__write_file", {"cwd": "/etc", "name": "passwd"}),
        ("mcp__fs__write_file", {"cwd": "/tmp", "workdir": "/etc", "name": "passwd"}),
        ("mcp__x__do", {"input": {"cwd": "/etc", "file": "passwd"}}),
        ("mcp__x__do", {"input": {"cmd": "rm passwd", "cwd": "/etc"}}),
        ("mcp__x__thing", {"action": "write", "method": "get", "path": ".env"}),
        ("mcp__fs__delete", {"path": "~"}),
        ("mcp__fs__read_and_remove", {"path": ".env"}),
        ("mcp__fs__apply", {"patch": "--- a/x\n+++ b/.env\n@@ -1 +1 @@\n-a\n+b\n"}),
        ("mcp__fs__apply", {"input": "*** Begin Patch\n*** Update File: .git/config\n+x\n*** End Patch"}),
        ("mcp__py__run", {"code": "open('.env', 'w').write('x')"}),
        ("mcp__fs__do", {"x": " .env\n"}),
        ("mcp__fs__do", {"x": "/srv/my app/.env"}),
        ("mcp__fs__write_file", {"path": ".env\n"}),
        ("python_repl", {"query": "open('.env', 'w').write('x')"}),
        ("save_it", {"to": ".env"}),
        ("js_repl", {"code": "fs.writeFileSync('.env', 'x')"}),
    ],
)
def test_a_path_that_a_tool_may_write_is_judged(name: str, given: Any) -> None:
    assert verdicts(name, given).get("protected_paths") == "deny"


@table(
    ("name", "given"),
    [
        ("mcp__py__run", {"code": "import os\nos.system('git push --force')"}),
        ("js_repl", {"code": "execFileSync('git', ['push', '--force'])"}),
        ("execute_code", {"code": "subprocess.run(['git', 'push', '-f'], check=True)"}),
    ],
)
def test_shell_text_that_code_of_a_tool_runs_is_judged(name: str, given: Any) -> None:
    assert verdicts(name, given).get("git_rules") == "deny"


@table("code", ["db.run('CREATE TABLE x (id INT)')", "subprocess.run(['git', 'status'])", "re.compile('a')"])
def test_calls_of_code_that_run_nothing_of_note_pass(code: str) -> None:
    assert verdicts("mcp__py__run", {"code": code}) == {}


def test_code_that_removes_is_asked_about() -> None:
    assert verdicts("mcp__py__run", {"code": "import shutil; shutil.rmtree('/srv')"})["destructive_commands"] == "ask"
    assert verdicts("mcp__db__query", {"sql": "DROP TABLE users"})["destructive_commands"] == "ask"
    assert verdicts("mcp__postgres__query", {"query": "delete from users;"})["destructive_commands"] == "ask"


@table(
    ("name", "given"),
    [
        ("TodoWrite", {"todos": [{"content": RM, "status": "pending", "activeForm": "x"}]}),
        ("AskUserQuestion", {"questions": [{"question": "May I run git push -f?", "options": ["rm -rf /"]}]}),
        ("ExitPlanMode", {"plan": "1. rm -rf build\n2. edit .env"}),
        ("update_plan", {"plan": [{"step": "git push -f", "status": "pending"}]}),
        ("think", {"thought": "what if I ran rm -rf / here?"}),
        ("Skill", {"command": "commit", "args": "-m x"}),
        ("SlashCommand", {"command": "/review"}),
        ("TaskCreate", {"subject": "Do a thing", "description": "rm -rf /", "activeForm": "Doing"}),
        ("sql", {"query": "DELETE FROM todos;"}),
        ("read_many_files", {"include": [".env", "src/**"]}),
        ("read_bash", {"shellId": "1", "delay": 5}),
        ("write_todos", {"todos": [{"description": "remove .git"}]}),
        ("save_memory", {"fact": "never touch .env"}),
        ("report_intent", {"intent": "fixing .env"}),
        ("cron_create", {"cron": "0 9 * * *", "prompt": "git push -f"}),
        ("KillShell", {"shell_id": "bash_1"}),
        ("str_replace_editor", {"command": "view", "path": ".env"}),
        ("str_replace_editor", {"command": "create", "path": "src/a.py", "file_text": "echo x > .env"}),
        ("weather", {"town": "Bern"}),
        ("weather", {}),
        ("mcp__x__thing", {"action": "read", "path": ".env"}),
        ("mcp__fs__list", {"folders": [{"dir": f"d{number}"} for number in range(40)]}),
        ("planner", {"goal": "/etc/hosts should not be changed"}),
        ("mcp__code__search", {"query": "where is rmtree called"}),
        ("Workflow", {"script": "export const meta = {name: 'x'}\nawait agent('run git status; then rm old files')"}),
        ("mcp__demo__echo", {"q": "x"}),
        ("mcp__demo__ask", {"q": "what does rm do?"}),
        ("mcp__fs__read_file", {"path": ".env"}),
        ("mcp__fs__read_multiple_files", {"paths": [".env", ".git/HEAD"]}),
        ("mcp__fs__list_directory", {"path": "/etc"}),
        ("mcp__fs__search_files", {"path": ".", "pattern": ".env*"}),
        ("mcp__fs__get_file_info", {"path": "/etc/hosts"}),
        ("mcp__fs__write_file", {"path": "src/a.sh", "content": "rm -rf /\necho x > .env\n"}),
        ("mcp__fs__edit_file", {"path": "a.py", "edits": [{"oldText": "rm -rf /", "newText": "git push -f"}]}),
        (
            "mcp__github__create_issue",
            {"title": ".env is read", "body": "run `rm -rf /`", "labels": ["bug"]},
        ),
        ("mcp__github__get_file_contents", {"owner": "a", "repo": "b", "path": ".github/hooks/x.json"}),
        (
            "mcp__github__create_pull_request",
            {"head": "fix/env", "base": "main", "title": "Don't"},
        ),
        (
            "mcp__github__push_files",
            {"files": [{"path": "src/a.py", "content": "x"}], "branch": "main"},
        ),
        ("mcp__linear__update_issue", {"id": "ENG-1", "state": "done", "comment": "don't rm it"}),
        ("mcp__slack__post_message", {"channel": "#dev", "text": "I'll git push -f; ok?"}),
        (
            "mcp__memory__create_entities",
            {"entities": [{"name": "env", "observations": [".env"]}]},
        ),
        (
            "mcp__sequential-thinking__sequentialthinking",
            {"thought": "rm -rf / is bad", "needsMore": True},
        ),
        ("mcp__playwright__browser_click", {"element": "Don't save", "ref": "e12"}),
        ("mcp__playwright__browser_evaluate", {"function": "() => document.title"}),
        ("mcp__puppeteer__puppeteer_evaluate", {"script": "const x = f(1); x.map(y => y.z)"}),
        ("mcp__playwright__browser_type", {"element": "field", "ref": "e3", "text": "git push"}),
        ("mcp__postgres__query", {"sql": "SELECT * FROM users WHERE id = 1"}),
        ("mcp__context7__resolve-library-id", {"libraryName": "react"}),
        ("mcp__context7__get-library-docs", {"context7CompatibleLibraryID": "/vercel/next.js", "topic": "routing"}),
        ("mcp__time__convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "CET"}),
        ("mcp__git__git_status", {"repo_path": "/srv/app/web"}),
        ("mcp__git__git_commit", {"repo_path": "/srv/app/web", "message": "don't rm -rf / any more"}),
        ("mcp__ide__getDiagnostics", {"uri": "file:///srv/app/web/a.py"}),
        ("mcp__sh__run", {"command": "ls -la"}),
        ("mcp__sh__run", {"command": "npm", "args": ["test", "--", "-u"]}),
        ("mcp__sh__run", {"argv": ["make", "test"]}),
        ("mcp__browser__do", {"command": 5, "n": None, "x": True, "y": 1.5}),
        ("mcp__jira__transition", {"issueKey": "A-1", "transition": {"name": "add tests, then close"}}),
        ("mcp__notion__update_page", {"properties": {"Name": {"title": "don't forget"}}, "archived": False}),
    ],
)
def test_everyday_calls_pass(name: str, given: Any) -> None:
    assert verdicts(name, given) == {}


def test_a_payload_that_calls_a_known_tool_otherwise_takes_no_guard_away() -> None:
    for kind in ("read", "other", "mcp", "subagent", "nonsense"):
        assert "destructive_commands" in verdicts("Bash", {"command": RM}, kind), kind
        assert "protected_paths" in verdicts("Write", {"path": ".env"}, kind), kind
    assert "destructive_commands" in verdicts("Read", {"command": RM}, "shell")


def test_a_tool_that_a_guards_file_lists_is_harmless() -> None:
    event: Any = Event("mcp__notes__put", {"path": ".env"})

    assert call_of(event).paths
    assert not call_of(event, ("mcp__notes__*",)).paths
    assert is_harmless(event, ("mcp__notes__put",))
    assert not is_harmless(event)
    assert not is_harmless(Event("TodoWrite", {}, "mcp")), "a server's tool may bear the name of a host's"


@table(
    ("given", "words"),
    [
        ({"command": RM, "cwd": 5}, "not a text"),
        ({"command": "ls", "cwd": []}, "not a text"),
        ({"command": "ls", "cwd": "~a\0b"}, "not a text"),
        ({"command": "ls", "root": "\ud800"}, "no file can have"),
        ({"path": "a\0b"}, "no file can have"),
        ({"list": [f"t{number}" for number in range(6000)]}, "more than"),
        ({"list": [[f"t{number}"] for number in range(6000)]}, "more than"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_a_reason(given: Any, words: str) -> None:
    fault = call_of(Event("mcp__sh__run", given)).fault

    assert fault is not None
    assert words in fault


def test_a_command_is_judged_in_so_many_folders_and_refused_beyond() -> None:
    def call_in(count: int) -> ToolCallTexts:
        return call_of(
            Event("mcp__sh__run", {"command": RM, "folders": [{"cwd": f"/f{number}"} for number in range(count)]})
        )

    assert call_in(MAX_PLACES).fault is None
    assert len({line.folder for line in call_in(MAX_PLACES).lines if line.text == RM}) == MAX_PLACES
    assert "folders, which are too many" in str(call_in(MAX_PLACES + 1).fault)


def test_a_long_text_is_a_command_by_its_form_if_it_is_guarded() -> None:
    def lines(text: str) -> int:
        return len(call_of(Event("mcp__db__put", {"x": text})).lines)

    plain, guarded = "make all", "rm -rf build"
    assert lines(plain.ljust(MAX_FORM)) == lines(guarded.ljust(MAX_FORM)) == 1
    assert lines(plain.ljust(MAX_FORM + 1)) == 0
    assert lines(guarded.ljust(MAX_FORM + 1)) == 1


@table("text", ["a\0b", "rm \x01", "\ud800", "(" * 100_000, "rm -rf $(" * 20_000, "x" * 1_000_000])
def test_odd_texts_are_read_or_refused_and_crash_nothing(text: str) -> None:
    for given in ({"command": text}, {"x": text}, {"path": text}, {"code": text}, {text: text}):
        call_of(Event("mcp__sh__run", given))
    assert verdicts("mcp__sh__run", {"command": text}).get("destructive_commands") in (None, "ask")


def test_a_deep_input_is_read_without_recursion() -> None:
    deep: Any = RM
    for _ in range(50_000):
        deep = {"x": deep}

    assert call_of(Event("mcp__sh__run", deep)).lines


def test_no_tool_has_two_kinds_and_none_is_both_known_and_harmless() -> None:
    names = [name for of_kind in KINDS_OF.values() for name in of_kind]

    assert len(names) == len(set(names))
    for host, harmless in HARMLESS.items():
        assert harmless.isdisjoint(names), host
        assert harmless.isdisjoint(UNCLEAR), host
        assert {find_tool_kind_by_name(name) for name in harmless} == {OTHER}, host


@pytest.mark.parametrize("name", [name for name in PURE if name != "secrets"])
def test_each_guard_of_calls_is_asked_about_what_no_table_has(name: str) -> None:
    (marker,) = vars(GUARDS[name])["__hooklatch_markers__"]

    assert {"shell", "mcp", "other"} <= set(marker.match)

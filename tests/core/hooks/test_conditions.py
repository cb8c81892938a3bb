"""Conditions: what may be meant, what is surely not, what cannot be read, and what is refused where it is written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from guards.gallery import PURE, cases
from hooklatch.cli.testing.cases import Case
from hooklatch.core.hooks import comparisons
from hooklatch.core.hooks.catalogue import EventDefinition
from hooklatch.core.hooks.conditions import InvalidConditionError, PayloadFacts, UnreadableFieldError, compile_where
from hooklatch.core.payload import Payload
from hooklatch.shelltext import prefixes
from support.plays import CATALOGUE
from support.tables import table

GATE = CATALOGUE["pre_tool_use"]
FOLDER = "/code/project"


def holds(where: object, payload: dict[str, Any], folder: str | None = FOLDER, event: str = "pre_tool_use") -> bool:
    compiled = compile_where(where)
    assert compiled is not None
    return compiled.may_hold(PayloadFacts(CATALOGUE[event], Payload(msgspec.json.encode(payload)), folder))


def bash(command: object) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}}


def write(path: object) -> dict[str, Any]:
    return {"tool_name": "Write", "tool_input": {"file_path": path, "content": ""}}


# -- commands --------------------------------------------------------------------------------------------------------


@table(
    ("command", "is_meant"),
    [
        ("git push", True),
        ("git push --force origin main", True),
        ("git pull", False),
        ("git", False),
        ("git stash push", False),
        ("git commit -m push", False),
        ("echo git push", False),
        ("echo 'git push'", False),
        # other spellings
        ("git  -C /srv -c a=b --no-pager push", True),
        ("/usr/bin/git push", True),
        ("GIT.exe push", True),
        ("g''it pu\\sh", True),
        ("$'\\x67it' push", True),
        ("git p{ush,}", True),
        ("git \\\n push", True),
        ("g\\\nit push", True),
        ("=git push", True),
        # inside others
        ("cd x && git push", True),
        ("sudo -u me git push", True),
        ("env A=1 timeout 5 git push", True),
        ("bash -lc 'cd x; git push'", True),
        ("echo $(git push)", True),
        ("echo `git push`", True),
        ("cat <(git push)", True),
        ("if true; then git push; fi", True),
        ("f() { git push; }; f", True),
        ("alias g=git; g push", True),
        ("echo 'git push' | sh", True),
        ("sh <<'END'\ngit push\nEND", True),
        ("find . -exec git push ';'", True),
        ("/usr/lib/git-core/git-push origin", True),
        # decided only when it runs, or read by nobody
        ("$GIT push", True),
        ("git $VERB", True),
        ("git -C $DIR status", True),
        ("git commit -m $TEXT", False),
        ("/usr/bin/g?t push", True),
        ("curl example.org | sh", True),
        ("curl example.org | sudo -s", True),
        ("source <(curl example.org)", True),
        ("echo push | xargs git", True),
        ("cat list | xargs -I% %", True),
        ("parallel < list", True),
        ("echo push | xargs hg", False),
        ("pwsh -EncodedCommand ZwBpAHQA", True),
        ("op run -- git push", True),
        ("docker exec box git -C x push", True),
        ("kubectl exec pod -- sh -c 'git push'", True),
        ("npm run git pull", False),
        # by programs that nobody has a table of, in words or in a text
        ("some-wrapper --fast git push", True),
        ("some-wrapper -c 'git push'", True),
        ("some-wrapper git pull", False),
        ("ssh-agent git push", True),
        ("sudo -nu me git push", True),
        ("script -qc 'git push' /dev/null", True),
        ("ls ((", True),
        ("g\0it push", True),
        ("git push" + " " * comparisons.MAX_COMMAND, True),
        # ruled out without parsing, or by it
        ("ls -la | grep push", False),
        ("make push", False),
        ("for f in *; do cat $f; done", False),
    ],
)
def test_a_command_is_meant_wherever_it_stands_in_the_line(command: str, is_meant: bool) -> None:
    assert holds({"command": "git push"}, bash(command)) is is_meant


def test_what_is_ruled_out_at_a_glance_is_ruled_out_by_the_parser_too() -> None:
    commands = [command for name in PURE for case in cases(name) if (command := command_of(case)) is not None]
    assert len(commands) > 400
    for text in commands:
        for name in ("rm", "git", "dd", "curl"):
            if name not in (prefixes.show_programs(text) or name):
                found = comparisons.read_commands(text) or ()  # what cannot be read does not name it either
                assert not any(prefixes.is_meant(name, (), one) for one in found), text


def command_of(case: Case) -> str | None:
    """Return the command of a case of the gallery, if it has one."""
    payload = msgspec.json.decode(bytes(case.params.payload), type=dict[str, Any])
    command = payload.get("tool_input", {}).get("command")
    return command if isinstance(command, str) else None


# -- paths -----------------------------------------------------------------------------------------------------------


@table(
    ("pattern", "path", "is_meant"),
    [
        ("/etc/**", "/etc/passwd", True),
        ("/etc/**", "/etc", True),
        ("/etc", "/etc/ssh/config", True),
        ("/etc/**", "/etcetera", False),
        ("/etc/*.conf", "/etc/a.conf", True),
        ("/etc/*.conf", "/etc/a/b.conf", False),
        ("/etc/**/*.conf", "/etc/a/b/c.conf", True),
        ("/etc/**/*.conf", "/etc/c.conf", True),
        ("/srv/[a-c]x", "/srv/bx", True),
        ("/srv/[!a-c]x", "/srv/bx", False),
        ("/srv/[!-z]x", "/srv/bx", True),  # not from "/" to "z"
        ("/srv/[!-z]x", "/srv/-x", False),
        ("/srv/[!a]x", "/srv//x", False),
        ("/srv/[!]a]x", "/srv/bx", True),
        ("/srv/[!]a]x", "/srv/]x", False),
        ("/srv/?x", "/srv//x", False),
        # without a slash: any part of the path
        ("*.pem", "keys/server.pem", True),
        (".git", ".git/config", True),
        (".env", "/x/.env.example", False),
        # relative to the agent's folder
        ("src/**", "src/a.py", True),
        ("src/**", "/code/project/src/a.py", True),
        ("src/**", "/elsewhere/src/a.py", False),
        ("**/src/*", "/elsewhere/src/a.py", True),
        ("./src", "src", True),
        ("../other/*", "/code/other/x", True),
        (".", "anything", True),
        ("~", "~/x", True),
        ("app/[id]/page.tsx", "app/[id]/page.tsx", True),
        ("app/[id]/page.tsx", "app/d/page.tsx", True),
        ("/", "/anything", True),
        # other spellings
        ("/etc/**", "//etc//passwd", True),
        ("/etc/**", "/srv/../etc/./passwd", True),
        ("/etc/**", "../../etc/passwd", True),
        ("/etc/**", "/etc/../srv/x", False),
        ("/etc/**", "/ETC/passwd", True),
        ("/etc/**", " /etc/passwd ", True),
        ("/srv/é", "/srv/e\u0301", True),
        (".git", ".g\u200cit/config", True),
        ("~/.ssh/**", "~/.ssh/id", True),
        ("~/.ssh/**", "$HOME/.ssh/id", True),
        ("~/.ssh/**", "${HOME}/.ssh", True),
        ("~/.ssh/**", "$HOMER/.ssh/id", False),
        # nobody can tell
        ("/etc/**", "~root/x", True),
        ("/etc/**", "/proc/self/root/etc/passwd", True),
        (".ssh", "C:\\Users\\me\\.ssh\\id", True),
        ("/etc/**", "file:///etc/passwd", True),
        ("/etc/**", " FILE:/etc/passwd", True),
        ("/etc/**", "/srv/x\0", True),
    ],
)
def test_a_path_is_meant_however_it_is_written(pattern: str, path: str, is_meant: bool) -> None:
    assert holds({"path": pattern}, write(path)) is is_meant


def test_a_home_is_the_one_of_who_runs_the_daemon() -> None:
    assert holds({"path": "~/.ssh/**"}, write(f"{comparisons.find_home()}/.ssh/id"))
    assert not holds({"path": "~/.ssh/**"}, write("/elsewhere/.ssh/id"))


@table("path", ["x/y", "/x/y"])
def test_a_relative_path_of_an_agent_without_a_folder_may_be_anywhere(path: str) -> None:
    assert holds({"path": "/srv/**"}, write(path), folder=None) is (path[0] != "/")
    assert holds({"path": "*.pem"}, write(path), folder=None) is False


@table("folder", ["project", "~/project", "", ".", "file:///code"])
def test_a_folder_that_is_not_written_from_the_root_is_not_known(folder: str) -> None:
    assert holds({"path": "/code/**"}, write("x"), folder=folder)
    assert holds({"path": "src/**"}, write("/code/project/src/x"), folder=folder) is False
    with pytest.raises(UnreadableFieldError, match="has no 'cwd'"):
        holds({"cwd": "/code/**"}, bash("ls"), folder=folder)


def test_a_path_may_be_relative_to_where_the_tool_is_told_to_run() -> None:
    assert holds({"path": "/etc/**"}, {"tool_name": "x", "tool_input": {"path": "passwd", "cwd": "/etc"}})
    assert holds({"path": "/code/**"}, {"tool_name": "x", "tool_input": {"path": "passwd", "cwd": "/etc"}})


def test_each_file_of_a_patch_is_looked_at() -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Add File: keys/b.pem\n*** End Patch"

    assert holds({"path": "*.pem"}, {"tool_name": "apply_patch", "tool_input": {"input": patch, "patch": patch}})


@table("line", ["  *** Add File: b.pem", "*** Add File:b.pem", "\t*** move to: b.pem"])
def test_a_file_of_a_patch_is_seen_as_the_most_lenient_program_reads_it(line: str) -> None:
    patch = f"*** Begin Patch\n*** Update File: a.txt\n{line}\n*** End Patch"

    assert holds({"path": "*.pem"}, {"tool_name": "apply_patch", "tool_input": {"patch": patch}})


def test_a_search_without_a_path_is_where_the_agent_is() -> None:
    search = {"tool_name": "Grep", "tool_input": {"pattern": "x"}}

    assert holds({"path": "/code/**"}, search)
    assert not holds({"path": "/srv/**"}, search)


@table(
    ("pattern", "is_meant"),
    [
        ("/etc/**/*.conf", True), ("/etc", True), ("../../etc/*", True), ("/{etc,srv}/x", False), ("etc/*", False),
        ("/*", False), ("x.*/../y", False), ("{/etc/passwd,x}", True),
        ("src/{a,../../../../etc/x}", True), ("{a,b}/c", False), ("", False), ("  ", False), ("{}", False),
    ],
)  # fmt: skip
def test_the_pattern_of_a_search_may_lead_out_of_where_it_searches(pattern: str, is_meant: bool) -> None:
    assert holds({"path": "/etc/**"}, {"tool_name": "Glob", "tool_input": {"pattern": pattern}}) is is_meant
    given = {"pattern": pattern, "path": "/code/project"}
    assert holds({"path": "/etc/**"}, {"tool_name": "Glob", "tool_input": given}) is is_meant


def test_a_search_may_name_the_home() -> None:
    assert holds({"path": "~/.ssh/**"}, {"tool_name": "Glob", "tool_input": {"pattern": "~/.ssh/id_*"}})


def test_a_tool_that_is_known_is_read_as_that_whatever_a_payload_calls_it() -> None:
    payload = {"tool_name": "Bash", "tool_kind": "other", "tool_input": {"command": "ls", "cmd": "git push"}}

    with pytest.raises(UnreadableFieldError, match="differ"):
        holds({"command": "git push"}, payload)


def test_an_event_that_says_nothing_of_its_fields_has_those_of_its_payload() -> None:
    spec = CATALOGUE.with_custom([EventDefinition(name="deploy", model="gate", verdicts=["deny"])])["deploy"]
    where = compile_where({"path": "/srv/**", "cwd": "/srv"})

    assert where is not None
    assert where.may_hold(PayloadFacts(spec, Payload(b'{"path": "/srv/x", "cwd": "/srv/y"}'), FOLDER))
    assert not where.may_hold(PayloadFacts(spec, Payload(b'{"path": "/srv/x"}'), FOLDER))


def test_a_payload_has_only_so_much_work_done_for_it() -> None:
    """A payload for which patterns would work longer is one of which nobody can tell; and a text is read once."""
    globs = [f"*a{'?' * 90}{number}" for number in range(64)]
    words = "x" * 900_000

    assert holds({"tool_input.x": {"glob": globs}}, {"tool_name": "t", "tool_input": {"x": "ab" * 10_000}})
    assert not holds({"tool_input.x": {"glob": globs}}, {"tool_name": "t", "tool_input": {"x": "ab" * 100}})
    facts = PayloadFacts(GATE, Payload(msgspec.json.encode(bash(words))), FOLDER)
    assert facts.visible_text(words) is facts.visible_text(words)


def test_a_tools_own_words_count_before_the_agents_folder() -> None:
    payload = {"tool_name": "Bash", "tool_input": {"command": "ls", "workdir": "/srv/x"}}

    assert holds({"cwd": "/srv/**"}, payload)
    assert not holds({"cwd": "/code/**"}, payload)
    assert holds({"cwd": "/code/**"}, bash("ls"))


# -- the other kinds, and how conditions come together ---------------------------------------------------------------


@table(
    ("where", "is_meant"),
    [
        ({"tool_input.timeout": ">= 100"}, True),
        ({"tool_input.timeout": "> 100"}, False),
        ({"tool_input.timeout": ["< 5", "> 99.5"]}, True),
        ({"tool_input.timeout": {"number": "<= 100"}}, True),
        ({"tool_input.timeout": 100}, True),
        ({"tool_input.timeout": 101}, False),
        ({"tool_input.background": True}, True),
        ({"tool_input.background": False}, False),
        ({"tool_name": "Bash"}, True),
        ({"tool_name": ["Read", "Bash"]}, True),
        ({"tool_name": {"glob": "B*"}}, True),
        ({"tool_input.command": {"command": ["rm", "git push"]}}, True),
        ({"tool_input.list.name": "b"}, True),
        ({"tool_input.argv": {"command": "git push"}}, True),
        ({"tool_input.argv": {"command": "git pull"}}, False),
        ({"tool_input.list.name": "c"}, False),
        ({"tool_input.mode": ["fast", "> 3"]}, True),
        ({"tool_input.mode": ["slow", "> 3"]}, False),
        # all must hold, and one that does not settles it
        ({"command": "git push", "tool_input.timeout": "> 5"}, True),
        ({"command": "git push", "tool_input.timeout": "< 5"}, False),
        ({"tool_input.missing": "x", "command": "rm"}, False),
    ],
)
def test_conditions(where: object, is_meant: bool) -> None:
    given = {"command": "git push", "timeout": 100, "background": True, "list": [{"name": "a"}, {"name": "b"}]}
    given |= {"mode": "fast", "argv": ["git", "-C", "/srv", "push"]}

    assert holds(where, {"tool_name": "Bash", "tool_input": given}) is is_meant


@table(
    ("where", "payload", "reason"),
    [
        ({"tool_input.x": "a"}, bash("ls"), "its field 'tool_input.x' is missing"),
        ({"tool_input.command": "> 5"}, bash("ls"), "its field 'tool_input.command' is not a number"),
        ({"tool_input.command.x": "a"}, bash("ls"), "'command' is not an object"),
        ({"command": "ls"}, bash(5), "neither text nor a list"),
        ({"command": "ls"}, {"tool_name": "Bash", "tool_input": {}}, "came without a known command"),
        ({"command": "ls"}, {"tool_name": "Bash"}, "its field 'tool_input' is missing"),
        ({"command": "ls"}, {"tool_name": "Bash", "tool_input": [1]}, "is not an object"),
        ({"command": "ls"}, {"tool_name": "Bash", "tool_args": None, "tool_input": {}}, "is not an object"),
        ({"cwd": "/x"}, {"tool_name": "Bash", "tool_args": {"cwd": msgspec.Raw(b"1e999")}}, "'cwd' cannot be read"),
        ({"path": "/x"}, {"tool_name": "Read", "tool_args": {"path": msgspec.Raw(b'"\xff"')}}, "cannot be read"),
        ({"command": "ls"}, {"tool_name": "Bash", "tool_input": {"command": "ls", "cmd": "rm"}}, "differ"),
        ({"path": "/x"}, bash("ls"), "its field 'path' is missing"),
        ({"path": "/x"}, {"tool_name": "Write", "tool_args": {"path": None}}, "its field 'path' is not a text"),
        ({"url": {"glob": "*"}}, bash("ls"), "its field 'url' is missing"),
        ({"tool_input.a.b": 1}, {"tool_name": "x", "tool_input": {"a": []}}, "is an empty list"),
        ({"tool_name": 5}, bash("ls"), "its field 'tool_name' is not a number"),
    ],
)
def test_a_field_that_is_missing_or_of_another_type_is_an_error(where: object, payload: Any, reason: str) -> None:
    with pytest.raises(UnreadableFieldError, match=reason):
        holds(where, payload)


def test_a_list_that_is_too_long_may_hold_anything() -> None:
    assert holds({"tool_input.a": "x"}, {"tool_name": "t", "tool_input": {"a": ["y"] * 257}})
    assert not holds({"tool_input.a": "x"}, {"tool_name": "t", "tool_input": {"a": ["y"] * 256}})


def test_tool_args_are_the_words_of_all_hosts() -> None:
    payload = {"tool_name": "x", "tool_kind": "shell", "tool_args": {"command": "rm y"}, "tool_input": {"c": "ls"}}

    assert holds({"command": "rm"}, payload)
    assert holds({"command": "rm"}, {"tool_name": "run_shell_command", "tool_input": {"command": "rm y"}})


@table(
    ("where", "reason"),
    [
        ({}, "it is a table of fields"),
        ("git push", "it is a table of fields"),
        ({"": "x"}, "is not a field"),
        ({"a..b": "x"}, "is not a field"),
        ({".".join("abcdefghi"): "x"}, "is not a field"),
        ({str(n): 1 for n in range(17)}, "at most 16 fields"),
        ({"command": []}, "1 to 64 alternatives"),
        ({"command": ["x"] * 65}, "1 to 64 alternatives"),
        ({"command": {"command": ["x"] * 65}}, "at most 64 alternatives"),
        ({"command": {"glob": []}}, "an empty list"),
        ({"command": ""}, "a text that is not empty"),
        ({"command": 5}, "a text that is not empty"),
        ({"command": "rm -rf"}, "it has an option|has an option"),
        ({"command": "rm; ls"}, "not shell text"),
        ({"command": "$X"}, "not shell text"),
        ({"command": "/bin/rm"}, "named without its folder: 'rm'"),
        ({"path": "*.{pem,key}"}, "write a list of paths"),
        ({"path": "*.pem,*.key"}, "write a list of paths"),
        ({"path": "$HOME/.ssh"}, "write ~"),
        ({"path": "app/\\[id\\]"}, "does not escape here"),
        ({"path": "file:///etc"}, "write the path alone"),
        ({"path": " *.pem"}, "with a space"),
        ({"tool_input.command": "git push"}, "{ command = … }"),
        ({"tool_input.file_path": "src"}, "{ path = … }"),
        ({"tool_input.command": {"equals": "ls"}}, None),
        ({"content": {"glob": "*{a,b}*"}}, "is not a choice in a glob"),
        ({"path": "~other/x"}, "the home of another user"),
        ({"path": "/x/[a"}, "unclosed"),
        ({"path": "/x/[[:alpha:]]x"}, "a named class"),
        ({"path": "/x/*/../y"}, "goes up from a folder that it does not name"),
        ({"path": "x" * 1001}, "at most 1000 characters"),
        ({"tool_input": {"command": "rm"}}, None),
        ({"tool_input": {"file_path": "/x"}}, 'write "tool_input.file_path"'),
        ({"tool_input": {"glob": "a", "path": "b"}}, "a table has one of"),
        ({"tool_input.file_path": "/etc/*"}, "say what '/etc/\\*' is"),
        ({"tool_input.n": {"number": "100"}}, 'compared as ">= 100"'),
        ({"tool_input.n": None}, "a value is a text, a number"),
        ({"tool_input.n": {"glob": "["}}, "unclosed"),
        # would be one text, one path or one program, which nothing is: a guard that is never called
        ({"tool_input.mode": "!= safe"}, "there is no negation"),
        ({"tool_input.mode": " !safe"}, "there is no negation"),
        ({"tool_input.n": "> 1e3"}, 'compared as ">= 100"'),
        ({"tool_input.n": "=> 3"}, 'compared as ">= 100"'),
        ({"tool_input.n": "== 3"}, "equals = '== 3'"),
        ({"tool_input.n": {"equals": "== 3"}}, None),
        ({"path": ["src/**", "!src/made/**"]}, "there is no negation"),
        ({"command": "!git push"}, "there is no negation"),
        ({"tool_input.n": float("inf")}, "a value is a text, a number"),
        ({"tool_input.n": f"> {'9' * 400}.0"}, "larger than any number"),
        ({".".join("abcdefgh"): 1}, None),
        ({".".join("abcdefghi"): 1}, "is not a field"),
    ],
)
def test_what_is_refused_where_it_is_written(where: object, reason: str | None) -> None:
    if reason is None:
        assert compile_where(where) is not None
        return
    with pytest.raises(InvalidConditionError, match=reason):
        compile_where(where)


def test_a_condition_is_shown_as_it_reads() -> None:
    where = compile_where({"command": ["git push", "rm"], "tool_input.n": ">= 5", "tool_name": "Bash"})

    assert where is not None
    assert where.text == "command is command git push or command rm, tool_input.n is >= 5, tool_name is 'Bash'"


@table(
    ("event", "field", "fault"),
    [
        ("pre_tool_use", "comand", "pre_tool_use has no field 'comand'; did you mean 'command'?"),
        ("pre_tool_use", "command", None),
        ("pre_tool_use", "tool_input.anything", None),
        ("user_prompt_submit", "prompt", None),
        ("user_prompt_submit", "command", "user_prompt_submit has no field 'command'"),
    ],
)
def test_a_field_that_no_payload_has_is_known_at_once(event: str, field: str, fault: str | None) -> None:
    where = compile_where({field: "x"})

    assert where is not None
    assert (where.find_unknown_field(CATALOGUE[event]) or "").startswith(fault or "")
    assert (where.find_unknown_field(CATALOGUE[event]) is None) is (fault is None)


def test_a_text_longer_than_any_path_stands_for_no_path() -> None:
    assert comparisons.list_spellings("/" + "x" * 4095)
    assert not comparisons.list_spellings("/" + "x" * 4096)

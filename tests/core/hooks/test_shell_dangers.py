"""What a shell hook runs that an agent can write, by a table of commands."""

from __future__ import annotations

from hooklatch.core.hooks.shell_dangers import find_dangers
from hooklatch.core.hooks.shell_definitions import ShellCommand
from support.tables import table

HERE = "of the folder in which the agent works"
GUARD = """branch=$(git branch --show-current) || exit 1
[ "$branch" != main ] || { echo "make a branch first" >&2; exit 2; }"""


@table(
    ("command", "text"),
    [
        ("./check.sh", f"it runs './check.sh' {HERE}"),
        ("true && tools/check", "it runs 'tools/check'"),
        ("if ./check.sh; then exit 2; fi", "'./check.sh'"),
        ("x=$(./check.sh)", "'./check.sh'"),
        ('x="$(./check.sh)"', "'./check.sh'"),
        ("x=`./check.sh`", "'./check.sh'"),
        ("cat | ./check.sh > out", "'./check.sh'"),
        ("> out ./check.sh", "'./check.sh'"),
        ("A=1 ./check.sh", "'./check.sh'"),
        ("exec ./check.sh", "'./check.sh'"),
        ("env A=1 ./check.sh", "'./check.sh'"),
        ("timeout 5 ./check.sh", "'./check.sh'"),
        ("sudo -n ./check.sh", "'./check.sh'"),
        ('"$PWD/check.sh"', "$PWD/check.sh"),
        ("$HOOKLATCH_CWD/check.sh", "$HOOKLATCH_CWD/check.sh"),
        ("cd tools && ./check.sh", "'./check.sh'"),
        ("bash check.sh", "bash runs 'check.sh'"),
        ("sh -c './check.sh'", "'./check.sh'"),
        ("bash -euc 'python3 check.py'", "'check.py'"),
        ("bash -x check.sh", "'check.sh'"),
        (". ./lib.sh; f", "it reads './lib.sh'"),
        ("source lib.sh", "it reads 'lib.sh'"),
        ("python3 check.py", "python runs 'check.py'"),
        ("python3 -u check.py", "python runs 'check.py'"),
        ("/usr/bin/python3 -I check.py", "python runs 'check.py'"),
        ("node guard.mjs", "node runs 'guard.mjs'"),
        ("node -r ./x /opt/guard.mjs", "node -r ./x loads code"),
        ("perl -I. /opt/guard.pl", "perl -I . loads code"),
        ("ruby -I lib /opt/guard.rb", "ruby -I lib loads code"),
        ("python3.9 -c 'import json'", "python3.9 is older than 3.11"),
        ("python2 /opt/x.py", "python2 is older than 3.11"),
        ("make check", "make runs commands from files of the folder"),
        ("npx eslint .", "npx runs commands from files"),
        ("npm test", "npm runs commands from files"),
        ("PATH=.:$PATH check", "'PATH=.:$PATH' has a relative entry"),
        ("export PATH=bin:/bin; check", "'PATH=bin:/bin' has a relative entry"),
        ("echo 'half", "its text cannot be read"),
    ],
)
def test_what_an_agent_can_write_is_named(command: str, text: str) -> None:
    found = find_dangers(ShellCommand(command=command))

    assert any(text in one for one in found), found
    assert all(one.endswith(('; write an absolute path, or run_in = "file"', " -I")) for one in found)


@table(
    "command",
    [
        GUARD,
        "test -f .git/MERGE_HEAD && exit 2",
        "exit 2",
        "jq -r .tool_input.command",
        "grep -q rm src/main.c && exit 2",
        "/opt/check.sh ./file",
        "~/bin/check.sh",
        "$HOME/bin/check.sh",
        "python3 /opt/check.py ./data.json",
        "python3 -c 'import json, sys; d = json.load(sys.stdin); sys.exit(2)'",
        "python3 -m json.tool",
        "python3.9 -I -c 'import json'",
        "python3.12 -c 'import json'",
        "node -e 'process.exit(2)'",
        "cd /opt/guards && ./check.sh",
        "PATH=/opt/bin:$PATH check",
        "cat > out.txt",
        "git status --porcelain | head -1",
        "echo 'no: ./check.sh' >&2; exit 2",
        "[ -x ./check.sh ] && exit 2",
    ],
)
def test_what_is_the_operators_is_not(command: str) -> None:
    assert find_dangers(ShellCommand(command=command)) == ()


@table(
    ("shell", "count"),
    [
        (ShellCommand(argv=["./check.sh"]), 0),
        (ShellCommand(argv=["python3", "check.py"]), 1),
        (ShellCommand(argv=["env", "./check.sh"]), 1),
        (ShellCommand(argv=["/bin/sh", "-c", "./check.sh"]), 1),
        (ShellCommand(argv=["check", "./data"]), 0),
        (ShellCommand(command="./check.sh", run_in="file"), 0),
        (ShellCommand(command="./check.sh", cwd="/opt"), 0),
        (ShellCommand(command="./check.sh", cwd="tools"), 1),
    ],
)
def test_where_it_runs_and_how_it_is_named_decide(shell: ShellCommand, count: int) -> None:
    assert len(find_dangers(shell)) == count


@table(
    ("shell", "text"),
    [
        (ShellCommand(argv=["./check.sh"], payload="claude"), "'./check.sh'"),
        (ShellCommand(command="python3 -c 'import json'", payload="claude"), "python imports from the folder"),
        (ShellCommand(command='"$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh', payload="claude"), "CLAUDE_PROJECT_DIR"),
        (ShellCommand(command='python3 "$CLAUDE_PROJECT_DIR"/x.py', payload="claude"), "python runs"),
        (ShellCommand(command="./x", payload="reasonix"), "'./x'"),
        (ShellCommand(command="git status", payload="claude"), "git runs what the settings of the repository name"),
    ],
)
def test_what_keeps_another_systems_ways_is_named(shell: ShellCommand, text: str) -> None:
    (found,) = find_dangers(shell)

    assert text in found
    assert found.endswith(("; write an absolute path", "; write python3 -I", 'payload = "canonical" prevents it'))


@table(
    "shell",
    [
        ShellCommand(argv=["./check.sh"]),
        ShellCommand(command="./check.sh", run_in="file"),
        ShellCommand(argv=["python3", "check.py"]),
    ],
)
def test_beside_a_projects_file_an_agent_can_write_too(shell: ShellCommand) -> None:
    (found,) = find_dangers(shell, is_of_project=True)

    assert found.endswith("an agent can write there; write an absolute path")


@table("text", ["$(" * 2000, "`", "$((", "<<", "<<E\n", "a <<E\n./x\nE\nb", "'", '"$(', "&>", ">", "# '", "\\"])
def test_no_text_is_too_strange_to_be_read(text: str) -> None:
    assert isinstance(find_dangers(ShellCommand(command=f"x {text}")), tuple)

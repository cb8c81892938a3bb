"""suggest: a week of decisions of a real daemon, with asks that a person answered, and the rules that it suggests.

Slow: the daemon and each command are processes of their own, and rules are tried in workers.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hooklatch import connect_sync
from hooklatch.client.admin import AdminConnection, open_admin
from support.commands import PROGRAM, Daemon, Place, new_place, payload, serving
from support.guard_repositories import GuardAuthors
from support.terminals import terminal

pytestmark = pytest.mark.slow

ASKING = '''\
from hooklatch import ask, deny, hook


@hook("pre_tool_use", match="shell")
def asking(event):
    """Ask before whatever is published."""
    if event.command.startswith("publish"):
        return deny("never hot from there") if event.cwd.endswith("/other") else ask("publish?")


@hook("pre_tool_use", match="write")
def asking_for_files(event):
    if "SECRET" in event.tool_input.get("content", ""):
        return deny("a secret")
    return ask("this one?") if event.path.endswith(".lock") else None
'''
CONFIG = '[ask]\nwait = "5m"\n[[source]]\npath = "asking.py"\n'
HOSTILE = "publish '''\"\"\"\\\n\x1b[31m\x00\u202e{x}]\nimport os; os.mkdir('taken')"


class Week:
    """A person who answers, and the agents that fire, in a place with a project."""

    def __init__(self, place: Place, daemon: Daemon, person: AdminConnection) -> None:
        self._folder, self._socket, self._person = place.folder, daemon.ready["agent"], person
        self._person.greet("a person")
        self._person.ask("subscribe", topics=["asks"])

    def fire(self, tool: str, *, cwd: str = "project", session: str = "one", **tool_input: Any) -> str:
        with connect_sync(self._socket, session_id=session, cwd=str(self._folder / cwd)) as agent:
            return str(agent.fire("pre_tool_use", tool_name=tool, tool_input=tool_input).verdict)

    def ask(self, tool: str, answer: str, reason: str = "as ever", **fired: Any) -> None:
        """Fire what is asked about, and answer it."""
        verdicts: list[str] = []
        agent = threading.Thread(target=lambda: verdicts.append(self.fire(tool, **fired)))
        agent.start()
        while "opened" not in (message := self._person.announcement()):
            pass
        self._person.ask("answer_ask", id=message["opened"]["id"], verdict=answer, reason=reason, by="me")
        agent.join()
        assert verdicts == [answer]


@contextmanager
def new_project() -> Generator[Place]:
    with new_place({"hooks.toml": CONFIG, "asking.py": ASKING}) as place:
        for name in ("project/vendor", "project/src", "other"):
            (place.folder / name).mkdir(parents=True)
        yield place


@contextmanager
def living(place: Place) -> Generator[Week]:
    with serving(place) as daemon, closing(open_admin(daemon.ready["admin"], None)) as person:
        yield Week(place, daemon, person)


@pytest.fixture(scope="module")
def lived() -> Iterator[Place]:
    """A place whose daemon has ended after a week of which the answers are known."""
    with new_project() as place:
        with living(place) as week:
            live(week, place.folder / "project")
        yield place


@pytest.fixture(scope="module")
def report(lived: Place) -> dict[str, Any]:
    said: dict[str, Any] = lived.json("suggest")
    return said


def live(week: Week, project: Path) -> None:
    for number in range(6):
        session = f"s{number % 2}"
        week.ask("Bash", "allow", command="publish docs", description=f"try {number}", session=session)
    for number in range(5):
        week.ask("Bash", "deny", "not by '''an agent", command="publish all")
        week.ask("Bash", "allow" if number else "deny", command="publish mixed")
        week.ask("Bash", "allow", command="publish hot")
        week.ask("Write", "allow", file_path=f"{project}/uv.lock", content="x")
    week.ask("Bash", "allow", command="publish rarely")
    assert week.fire("Bash", command="publish hot", cwd="other") == "deny"
    for number in range(2):
        week.fire("Bash", command=f"ls {number}")
    for number in range(12):
        week.fire("Read", file_path=f"{project}/vendor/{number}.py")
    for number in range(6):
        week.fire("Write", file_path=f"{project}/src/{number}.py", content="")
    week.fire("Bash", command=f"ls {'x' * 600}")
    week.fire("Bash", command="curl --token sk-" + "a" * 30)


def said_of(proposal: dict[str, Any]) -> tuple[Any, ...]:
    replay = proposal["replay"]
    assert (replay["decisions"], replay["unreplayed"], replay["redacted"]) == (48, 2, 1)
    changes = {(change["then"], change["now"]): change["times"] for change in replay["changes"]}
    assert sum(changes.values()) == replay["changed"]
    subject = Path(proposal["subject"].partition(":")[0]).name
    return proposal["kind"], subject, proposal["hook"], proposal["count"], proposal["sessions"], changes


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


@pytest.fixture
def copied(lived: Place, tmp_path: Path) -> Iterator[Path]:
    """A copy of the place's configuration, for what is written."""
    folder = Path(shutil.copytree(lived.config.parent, tmp_path / "config"))
    folder.chmod(0o700)
    before = lived.environment["HOOKLATCH_CONFIG"]
    lived.environment["HOOKLATCH_CONFIG"] = str(folder / "hooks.toml")
    yield folder
    lived.environment["HOOKLATCH_CONFIG"] = before


def test_a_week_suggests_exactly_these(report: dict[str, Any]) -> None:
    assert (report["decisions"], report["asks"], report["verified"], report["notes"]) == (50, 27, True, [])
    assert [said_of(proposal) for proposal in report["proposals"]] == [
        ("allow", "publish docs", "global/asking", 6, 2, {("ask", "allow"): 6}),
        ("allow", "uv.lock", "global/asking:asking_for_files", 5, 1, {("ask", "allow"): 5}),
        ("deny", "publish all", "global/asking", 5, 1, {("ask", "deny"): 5}),
        ("commands", "only_guarded_agents", None, 36, 3, {}),
        ("paths", "protected_paths", None, 36, 3, {}),
        ("commands", "destructive_commands", None, 25, 3, {}),
        ("commands", "git_rules", None, 25, 3, {}),
        ("commands", "network_egress", None, 25, 3, {}),
        ("commands", "package_installs", None, 25, 3, {}),
        ("folder", "vendor", None, 12, 1, {}),
    ]
    assert len({proposal["name"] for proposal in report["proposals"]}) == 10
    assert all(proposal["first"] <= proposal["last"] for proposal in report["proposals"])


def test_without_a_terminal_nothing_is_written_and_the_command_that_writes_is_named(copied: Path, lived: Place) -> None:
    before = files_in(copied)

    shown = lived.run("suggest", "--times", "6")

    assert files_in(copied) == before
    assert "evidence    6 asks of global/asking, " in shown.stdout
    assert "replay      of 48 decisions, 6 would change, ask to allow 6; 2 more could not be put to it" in shown.stdout
    assert shown.stdout.endswith("\n\nnothing was written\n")
    (command, *_) = re.findall(r"(?m)^write +hooklatch (suggest .* --write allowed_publish_docs_\w+)$", shown.stdout)
    written = lived.run(*command.split())
    assert written.returncode == 0, written.stderr
    assert "reason='a person allowed exactly this 6 times by 20" in written.stdout
    assert [name for name, data in files_in(copied).items() if before.get(name) != data] == ["asking.py"]
    assert lived.run("check").returncode == 0


def test_what_is_written_answers_exactly_what_was_asked(copied: Path, lived: Place, report: dict[str, Any]) -> None:
    project = str(lived.folder / "project")
    wanted = {"publish docs", f"{project}/uv.lock", "publish all", f"{project}/vendor"}
    names = [row["name"] for row in report["proposals"] if row["subject"] in wanted]
    for name in names:
        assert lived.run("suggest", "--write", name).returncode == 0
    before = files_in(copied)
    again = lived.run("suggest", "--write", names[0])
    assert (again.returncode, f"there is no proposal '{names[0]}'" in again.stderr) == (64, True)
    assert files_in(copied) == before
    left = {row["subject"] for row in lived.json("suggest")["proposals"]}

    assert len(names) == 4
    assert not wanted & left
    assert lived.run("check").returncode == 0
    assert lived.run("guards", "test").returncode == 0
    cases: list[tuple[str, str, dict[str, Any], str]] = [
        ("allow", "Bash", {"command": "publish docs"}, project),
        ("allow", "Bash", {"command": "publish docs", "description": "else", "timeout": 5}, project),
        ("ask", "Bash", {"command": "publish docs", "run_in_background": True}, project),
        ("ask", "Bash", {"command": "publish docs "}, project),
        ("ask", "Bash", {"command": "publish docs"}, f"{project}/src"),
        ("ask", "Shell", {"command": "publish docs"}, project),
        ("deny", "Bash", {"command": "publish all"}, project),
        ("ask", "Bash", {"command": "publish all"}, f"{project}/src"),
        ("allow", "Write", {"file_path": f"{project}/uv.lock", "content": "x"}, project),
        ("ask", "Write", {"file_path": f"{project}/uv.lock", "content": "y"}, project),
        ("ask", "Write", {"file_path": f"{project}/uv.lock", "content": "x", "mode": 511}, project),
        ("deny", "Write", {"file_path": f"{project}/uv.lock", "content": "SECRET"}, project),
        ("ask", "Write", {"file_path": f"{project}/src/uv.lock", "content": "x"}, project),
        ("ask", "Write", {"file_path": f"{project}/vendor/x", "content": "x"}, project),
        ("ask", "Bash", {"command": "sed -i s/a/b/ vendor/x"}, project),
        ("ask", "Bash", {"command": "rm -r ../project"}, project),
        ("pass", "Bash", {"command": "cat vendor/x > src/x"}, project),
    ]
    lines = [
        {"name": str(number), "event": "pre_tool_use", "cwd": cwd, "expect": expect,
         "payload": {"tool_name": tool, "tool_input": given}}
        for number, (expect, tool, given, cwd) in enumerate(cases)
    ]  # fmt: skip
    (lived.folder / "cases.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    tested = lived.run("test", "cases.jsonl")
    assert tested.returncode == 0, tested.stdout
    link = lived.folder / "project/uv.lock"
    link.symlink_to(lived.folder / "other")
    tested = lived.run("test", "cases.jsonl")
    link.unlink()
    assert tested.stdout.count("FAIL") == 1, tested.stdout


def test_a_guard_that_can_take_no_exception_is_named(copied: Path, lived: Place) -> None:
    renamed = ASKING.replace("def asking(", "def other(").replace(
        ".path.ends", ".path and strict(asking_for_files).ends"
    )
    (copied / "asking.py").write_text(renamed)

    report = lived.json("suggest")

    path = lived.folder / "project/uv.lock"
    assert report["notes"] == [
        "6 asks of global/asking about publish docs were all allowed: it is not a Python function in a file of yours",
        f"5 asks of global/asking:asking_for_files about {path} were all allowed: "
        "its file may make a denial of its ask elsewhere, so it cannot take an exception; or it has it",
    ]
    assert "allow" not in {proposal["kind"] for proposal in report["proposals"]}


def test_a_guard_of_a_repository_takes_no_exception_since_it_would_not_be_loaded(
    copied: Path, lived: Place, tmp_path: Path
) -> None:
    authors = GuardAuthors(tmp_path / "authors")
    judged = json.loads(payload("Bash", command="ls"))
    case = {"name": "a", "event": "pre_tool_use", "payload": judged, "expect": "pass"}
    commit = authors.publish("v1", {"asking.py": ASKING, "asking.jsonl": json.dumps(case)})
    (copied / "hooks.toml").write_text(f'[[source]]\ngit = "{authors.folder}"\nrev = "{commit}"\n')
    updated = lived.run("sources", "update")
    assert updated.returncode == 0, updated.stdout + updated.stderr
    said = lived.json("suggest")

    assert {proposal["kind"] for proposal in said["proposals"]}.isdisjoint({"allow"})
    assert any(note.endswith("it is not a Python function in a file of yours") for note in said["notes"])


def test_at_a_terminal_only_what_gets_a_yes_is_written(copied: Path, lived: Place, report: dict[str, Any]) -> None:
    before = files_in(copied)
    names = [row["name"] for row in report["proposals"]]
    with terminal([*PROGRAM, "suggest"], environment=lived.environment, folder=lived.folder, columns=200) as person:
        for number, name in enumerate(names, 1):
            person.until(f"write {name}? [y/N]")
            person.type({3: "y\n", 6: "yes\n", 4: "n\n"}.get(number, "\n"))
        shown = person.rest()

    changed = sorted(name for name, data in files_in(copied).items() if before.get(name) != data)
    refused = [name for name in changed if "refused_publish_all" in name]
    assert changed == sorted([*refused, "hooks.d/destructive_commands.py",
                              "hooks.d/policy-tests/destructive_commands.jsonl"])  # fmt: skip
    assert len(refused) == 2
    assert shown.count("wrote ") == 2
    assert lived.run("check").returncode == 0


def test_a_record_that_cannot_be_verified_suggests_nothing_unless_told(lived: Place, tmp_path: Path) -> None:
    state = Path(shutil.copytree(lived.folder / ".local/state", tmp_path / "state"))
    (segment,) = state.rglob("record/0*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"publish rarely", b"publish rarelx"))
    record = ("--record", str(segment.parent))

    refused = lived.run("suggest", *record)
    verified = lived.run("log", "verify", *record)
    report = lived.json("suggest", "--unverified", *record)
    shown = lived.run("suggest", "--unverified", *record)

    assert (refused.returncode, refused.stdout) == (verified.returncode, "") == (1, "")
    assert "the record cannot be verified: altered: " in refused.stderr
    assert not report["verified"]
    assert report["proposals"]
    assert not any(proposal["verified"] for proposal in report["proposals"])
    assert shown.stderr.startswith("hooklatch: the record cannot be verified: altered: ")
    assert shown.stdout.count("(of a record that cannot be verified)") == len(report["proposals"])


def test_a_short_record_says_how_much_it_has_and_what_is_needed(lived: Place) -> None:
    none = lived.run("suggest", "--since", "2000-01-01", "--until", "2000-02-01")
    missing = lived.run("suggest", "--record", str(lived.folder / "nothing"))

    assert none.returncode == missing.returncode == 66
    assert "has 0 decisions since 2000-01-01T00:00:00.000Z, and a rule needs 30" in none.stderr
    assert "there is no record in" in missing.stderr


def test_a_hostile_text_stays_a_text() -> None:
    with new_project() as place, living(place) as week:
        path = f"{place.folder}/project/'''\"\"\"\\\n{{x}}\u2028\x1b[2J #.lock"
        for number in range(10):
            week.ask("Bash", "deny" if number % 2 else "allow", "'''\n\\", command=HOSTILE + "ab"[number % 2])
            week.ask(
                "Write", "allow" if number % 2 else "deny", file_path=path + "ab"[number % 2] + ".lock", content=""
            )
            week.fire("Read", file_path="/x")
        before = files_in(place.folder)
        rows = place.json("suggest")["proposals"]
        kinds = [row["kind"] for row in rows]
        for row in rows:
            written = place.run("suggest", "--write", row["name"])
            assert written.returncode == 0, written.stderr
            assert not set(written.stdout) & set("\x1b\x00\u202e\u2028")
        new = {name for name in files_in(place.folder) if name not in before and name.startswith("config")}

        assert kinds == ["allow", "allow", "deny", "deny"]
        assert len(new) == 4
        assert all(Path(name).name.replace(".", "").replace("_", "").isalnum() for name in new)
        assert place.run("check").returncode == 0
        assert place.run("guards", "test").returncode == 0
        tree = ast.parse(place.config.with_name("asking.py").read_text())
        # Each exception has its import above it, unless one is there: it depends on which is written first.
        kinds = [type(node).__name__ for node in tree.body]
        assert (kinds.count("FunctionDef"), {*kinds}) == (2, {"FunctionDef", "ImportFrom"})
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {function.id for function in calls if isinstance(function, ast.Name)}
        assert called == {"hook", "ask", "deny", "allow_same_call"}
        assert not list(place.folder.rglob("taken"))
        place.run("reload")
        assert week.fire("Bash", command=HOSTILE + "a") == "allow"
        assert week.fire("Bash", command=HOSTILE + "b") == "deny"
        assert week.fire("Write", file_path=f"{path}b.lock", content="") == "allow"
        assert week.fire("Write", file_path=f"{path}a.lock", content="") == "deny"

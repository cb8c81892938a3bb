"""guards add SOURCE@REV, outdated, update and forget: real repositories, made and changed by git.

Slow: each command is a process of its own, and runs cases in workers.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from support.commands import PATIENCE, PROGRAM, Place, new_place
from support.guard_repositories import GuardAuthors, cases_of, guard_of
from support.terminals import terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]

FIRST: dict[str, str | Path | None] = {
    "guards/no_halt.py": guard_of("no_halt", "halt", "poweroff", "reboot", "shutdown", "init 0"),
    "guards/no_halt.jsonl": cases_of("halt"),
}


class SharedGuards:
    """A place, authors with a first version of a guard, and what the place has of it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.authors = GuardAuthors(place.folder / "authors")
        self.commit = self.authors.publish("v1", FIRST)
        self.hooks = place.config.parent / "hooks.d"
        self.guard = self.hooks / "no_halt.py"
        self.cases = self.hooks / "policy-tests/no_halt.jsonl"
        self.lock = place.config.parent / "shared-guards.lock"

    def add(self, rev: str = "v1", *words: str) -> None:
        done = self.place.run("guards", "add", self.authors.at(rev), "--yes", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def refused(self, *words: str, code: int, because: str) -> str:
        """Run a command that refuses, and leaves everything as it was; return what it printed."""
        before = self.content()
        done = self.place.run("guards", *words)
        assert (done.returncode, because in done.stderr) == (code, True), done.stdout + done.stderr
        assert self.content() == before
        return done.stdout + done.stderr

    def content(self) -> dict[str, bytes | str]:
        folder = self.place.config.parent
        return {
            str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() or path.is_symlink()
        }


@pytest.fixture
def shared() -> Iterator[SharedGuards]:
    with new_place({}) as place:
        yield SharedGuards(place)


def test_a_guard_is_added_with_its_cases_and_locked_to_a_commit(shared: SharedGuards) -> None:
    added = shared.place.json("guards", "add", shared.authors.at("v1"), "--yes")

    written = {shared.cases: FIRST["guards/no_halt.jsonl"], shared.guard: FIRST["guards/no_halt.py"]}
    assert [path.read_text() for path in written] == [*written.values()]
    assert {path.stat().st_mode & 0o777 for path in (*written, shared.lock)} == {0o600}
    assert added["created"] == [str(path) for path in (*written, shared.lock)]
    (locked,) = json.loads(shared.lock.read_text())["guards"].items()
    assert locked[0] == "no_halt"
    assert locked[1].pop("date")
    assert locked[1] == {
        "source": str(shared.authors.folder), "rev": "v1", "commit": shared.commit,
        "guard_sha256": sha256(shared.guard.read_bytes()).hexdigest(),
        "cases_sha256": sha256(shared.cases.read_bytes()).hexdigest(),
    }  # fmt: skip
    (row,) = [row for row in shared.place.json("guards", "list") if row["name"] == "no_halt"]
    assert row["source"] == f"{shared.authors.at('v1')} (commit {shared.commit[:12]})"
    assert row["summary"] == "Refuse no_halt"
    assert row["source"] in shared.place.run("guards", "show", "no_halt").stderr
    assert shared.place.run("guards", "test").returncode == 0
    assert shared.place.run("check").stdout.endswith("1 hook, 1 source, no problem\n")


def test_a_lock_of_packages_beside_the_hooks_is_not_that_of_shared_guards(shared: SharedGuards) -> None:
    packages = shared.place.config.parent / "guards.lock"
    packages.write_text("msgspec==0.20.0 --hash=sha256:0\n")  # as docs/guides/environments.md says

    shared.add()

    assert shared.place.run("check").returncode == 0
    assert packages.read_text().startswith("msgspec")


def test_no_code_runs_before_somebody_agrees_and_then_what_is_written_was_shown(shared: SharedGuards) -> None:
    ran = shared.place.folder / "ran"
    shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt", more=f"open({str(ran)!r}, 'w')\n")})

    said = shared.refused("add", shared.authors.at("v2"), code=64, because="to agree: --yes")
    shared.refused("add", shared.authors.at("v2"), "--json", code=64, because="to agree: --yes")

    assert not ran.exists()
    assert f"+open({str(ran)!r}, 'w')" in said
    shared.add("v2")
    assert ran.exists()


def test_a_person_is_asked_and_no_text_of_the_guard_commands_the_terminal(shared: SharedGuards) -> None:
    shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt", more="# \x1b[2J \u202e \r\n")})
    words = [*PROGRAM, "guards", "add", shared.authors.at("v2")]
    before = shared.content()

    for answer, code in (("n", 1), ("y", 0)):
        assert shared.content() == before
        with terminal(words, environment=shared.place.environment, folder=shared.place.folder) as person:
            person.until("and add no_halt if they pass? [y/N]")
            person.type(f"{answer}\n")
            person.rest()
        assert person.process.returncode == code, person.seen
        assert "\x1b[2J" not in person.seen
        assert "\u202e" not in person.seen

    assert shared.guard.exists()


def test_a_guard_that_python_reads_otherwise_than_it_is_shown_is_refused(shared: SharedGuards) -> None:
    shared.add()
    ran = shared.place.folder / "ran"
    hidden = f"open({str(ran)!r}, 'w')"
    for number, mark in enumerate("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        rev = f"v1.{number}"
        shared.authors.publish(rev, {"guards/no_halt.py": guard_of("no_halt", "halt", more=f"#{mark}@hook('stop')\n")})
        said = f"line 4 of no_halt.py has the character {mark!a}"
        shared.refused("update", "no_halt", "--to", rev, "--yes", code=65, because=said)
    for encoding in ("raw_unicode_escape", "no-such"):
        text = f"# coding: {encoding}\n# \\u000a{hidden}\n{guard_of('no_halt', 'halt')}"
        shared.authors.publish(encoding, {"guards/no_halt.py": text})
        shared.refused("update", "no_halt", "--to", encoding, "--yes", code=65, because="another encoding than UTF-8")

    shared.place.run("guards", "forget", "no_halt")
    shared.refused("add", shared.authors.at("v1.7"), "--yes", code=65, because="the character '\\u2029'")

    assert not ran.exists()


def test_cases_that_read_a_file_are_refused_before_they_run(shared: SharedGuards) -> None:
    shared.add()
    ran = shared.place.folder / "ran"
    secret = shared.place.folder / "secret.json"
    secret.write_text('{"tool_name": "Bash", "tool_input": {"command": "ls"}}')
    for number, file in enumerate((str(secret), "~/secret.json", "../secret.json")):
        case = {"name": "reader", "event": "pre_tool_use", "expect": "pass", "payload_file": file}
        shared.authors.publish(f"v1.{number}", {
            "guards/no_halt.py": guard_of("no_halt", "halt", more=f"open({str(ran)!r}, 'w')\n"),
            "guards/no_halt.jsonl": cases_of("halt") + json.dumps(case) + "\n",
        })  # fmt: skip
        said = f"no_halt.jsonl:3: the case 'reader' reads the file {file!r}"
        shared.refused("update", "no_halt", "--to", f"v1.{number}", "--yes", code=65, because=said)

    shared.place.run("guards", "forget", "no_halt")
    shared.guard.unlink()
    shared.cases.unlink()
    shared.refused("add", shared.authors.at("v1.0"), "--yes", code=65, because=f"reads the file {str(secret)!r}")

    assert not ran.exists()


def test_cases_are_shown_before_they_run_and_their_lines_as_they_are_read(shared: SharedGuards) -> None:
    cases = cases_of("halt \u2028 now").replace("\\u2028", "\u2028")
    shared.authors.publish("v2", {"guards/no_halt.jsonl": cases})

    said = shared.refused("add", shared.authors.at("v2"), code=64, because="to agree: --yes")

    assert '+{"name": "halt \\u2028 now", ' in said
    shared.add()
    assert '+{"name": "halt \\u2028 now", ' in shared.refused("update", code=64, because="to agree: --yes")


def test_a_guard_whose_cases_fail_is_not_added(shared: SharedGuards) -> None:
    shared.authors.publish("v2", {"guards/no_halt.jsonl": cases_of("halt", "sleep")})

    shared.refused("add", shared.authors.at("v2"), "--yes", code=1, because="cases of no_halt fail")


def test_cases_run_as_isolated_as_the_operator_wants(shared: SharedGuards) -> None:
    ran = shared.place.folder / "ran"
    shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt", more=f"open({str(ran)!r}, 'w')\n")})
    shared.place.config.write_text('[isolation]\nlevel = "restricted"\nif_unavailable = "report"\n')

    shared.refused("add", shared.authors.at("v2"), "--yes", code=1, because="cases of no_halt fail")

    assert not ran.exists()


def test_a_branch_is_refused_with_the_commit_to_name_and_the_commit_is_taken(shared: SharedGuards) -> None:
    shared.refused("add", shared.authors.at("main"), "--yes", code=66, because=f"{shared.authors.at(shared.commit)}")
    shared.refused("add", shared.authors.at("v3"), "--yes", code=66, because="has no tag 'v3'")

    shared.add(shared.commit)

    assert json.loads(shared.lock.read_text())["guards"]["no_halt"]["commit"] == shared.commit


def test_neither_hooks_of_the_repository_nor_those_of_the_users_git_run(shared: SharedGuards) -> None:
    ran = shared.place.folder / "ran"
    for folder in (shared.authors.folder / ".git/hooks", shared.place.folder / "hooks"):
        folder.mkdir(exist_ok=True)
        for name in ("post-checkout", "reference-transaction", "post-merge", "pre-auto-gc"):
            (folder / name).write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
            (folder / name).chmod(0o755)
    (shared.place.folder / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {shared.place.folder / 'hooks'}\n[init]\n\ttemplateDir = {shared.authors.folder}/.git\n"
    )

    shared.add()

    assert not ran.exists()


def test_links_are_refused_by_their_names(shared: SharedGuards) -> None:
    shared.authors.publish("link", {"guards/no_halt.py": Path("/etc/passwd")})
    shared.authors.publish("cases", {**FIRST, "guards/no_halt.jsonl": Path("../../x")})
    shared.authors.publish("folder", {"guards/no_halt.py": None, "guards/no_halt.jsonl": None})
    (shared.authors.folder / "guards").rmdir()
    shared.authors.publish("folder", {"guards": Path("/tmp")})

    for rev, name in (("link", "'no_halt.py'"), ("cases", "'no_halt.jsonl'"), ("folder", "'guards'")):
        shared.refused("add", shared.authors.at(rev), "--yes", code=65, because=name)


def test_other_files_are_left_out_by_their_names(shared: SharedGuards) -> None:
    more: dict[str, str | Path | None] = {
        "guards/README.md": "x", "guards/lib/x.py": "x", "guards/a-b.py": "x", "guards/alone.py": "x", "top.py": "x",
        "guards/docs": Path("/etc"),
    }  # fmt: skip
    shared.authors.publish("v2", more)

    done = shared.place.run("guards", "add", shared.authors.at("v2"), "--yes")

    assert done.returncode == 0, done.stderr
    assert "with cases: README.md, a-b.py, alone.py, docs, lib\n" in done.stdout
    assert {path.name for path in shared.hooks.rglob("*.*")} == {"no_halt.py", "no_halt.jsonl"}


def test_no_name_leads_out_of_the_folder(shared: SharedGuards) -> None:
    blob = shared.authors.git("hash-object", "-w", "--stdin", stdin=b"x")
    rows = b"".join(b"100644 ../x.%s\0%s" % (end, bytes.fromhex(blob)) for end in (b"jsonl", b"py"))
    tree = shared.authors.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=rows)
    shared.authors.git("tag", "slash", shared.authors.git("commit-tree", "-m", "slash", tree))

    shared.refused("add", shared.authors.at("slash"), "--yes", code=66, because="fullPathname")
    shared.refused("add", shared.authors.at("v1"), "--only", "../x", "--yes", code=66, because="no guard '../x'")


def test_a_file_of_the_users_own_is_left_as_it_is(shared: SharedGuards) -> None:
    shared.place.write({"hooks.d/no_halt.py": "# mine\n"})

    shared.refused("add", shared.authors.at("v1"), "--yes", code=73, because="is there already and was left as it is")


def test_one_of_several_guards_is_added(shared: SharedGuards) -> None:
    shared.authors.publish("v2", {"guards/b.py": guard_of("b", "b"), "guards/b.jsonl": cases_of("b")})

    shared.add("v2", "--only", "b")
    assert not shared.guard.exists()
    shared.add("v2")

    assert [*json.loads(shared.lock.read_text())["guards"]] == ["b", "no_halt"]
    shared.refused("add", shared.authors.at("v2"), "--yes", code=73, because="hooklatch guards update")


def test_an_update_takes_what_is_new_and_keeps_what_was_edited(shared: SharedGuards) -> None:
    shared.add()
    shared.guard.write_text(shared.guard.read_text().replace("init 0", "init 6"))
    newest = shared.authors.publish("v1.10", {
        "guards/no_halt.py": guard_of("no_halt", "halt", "telinit", "poweroff", "reboot", "shutdown", "init 0"),
        "guards/no_halt.jsonl": cases_of("halt", "telinit"),
    })  # fmt: skip
    shared.authors.git("tag", "v1.9", "v1.10")
    shared.authors.git("tag", "v1.10.1", "v1.10")

    outdated = shared.place.json("guards", "outdated", code=1)
    assert (outdated[0]["newer"], outdated[0]["edited"]) == (["v1.9", "v1.10", "v1.10.1"], [str(shared.guard)])
    assert "v1    v1.10.1, and 2 before it" in shared.place.run("guards", "outdated").stdout
    shared.refused("update", code=64, because="to agree: --yes")
    done = shared.place.run("guards", "update", "--yes")

    assert done.returncode == 0, done.stderr
    assert "+    'telinit'," in done.stdout
    assert "init 0" not in done.stdout
    assert shared.guard.read_text() == guard_of(
        "no_halt", "halt", "telinit", "poweroff", "reboot", "shutdown", "init 6"
    )
    assert shared.cases.read_text() == cases_of("halt", "telinit")
    locked = json.loads(shared.lock.read_text())["guards"]["no_halt"]
    assert (locked["rev"], locked["commit"]) == ("v1.10.1", newest)
    shared.authors.git("tag", "v1.11", "v1.10")
    assert [row["newer"] for row in shared.place.json("guards", "outdated")] == [[]]  # it is this commit
    assert [row["result"] for row in shared.place.json("guards", "update", "--yes")] == ["current"]


def test_lines_that_both_have_changed_are_refused_with_the_difference(shared: SharedGuards) -> None:
    shared.add()
    shared.guard.write_text(shared.guard.read_text().replace("halt'", "halt now'"))
    shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt -f")})

    said = shared.refused("update", "--yes", code=1, because="changed the same lines of")

    assert "+<<<<<<< yours\n" in said
    assert "+    'halt -f',\n" in said


def test_a_tag_that_moved_is_said_and_taken_only_by_its_option(shared: SharedGuards) -> None:
    shared.add()
    moved = shared.authors.publish("v1", {"guards/no_halt.py": guard_of("no_halt", "halt", "kexec")})
    shared.authors.publish("v2", {})

    said = f"THE TAG v1 OF {shared.authors.folder} MOVED: it was commit {shared.commit} on "
    shared.refused("outdated", code=1, because=said)
    shared.refused("update", "--yes", code=1, because=said)
    shared.refused("update", "no_halt", "--to", "v2", "--yes", code=1, because=said)
    shared.refused("add", shared.authors.at("v1"), "--yes", code=1, because=f"and is {moved} now")
    done = shared.place.run("guards", "update", "no_halt", "--to", "v1", "--yes", "--accept-moved-tag")

    assert done.returncode == 0, done.stderr
    assert "kexec" in shared.guard.read_text()
    shared.authors.git("tag", "--delete", "v1")
    shared.refused("update", "--yes", code=1, because="does not exist any more")


def test_a_new_version_that_fails_its_cases_or_is_a_link_or_gone_is_not_taken(shared: SharedGuards) -> None:
    shared.add()

    shared.authors.publish("v2", {"guards/no_halt.jsonl": cases_of("sleep")})
    shared.refused("update", "--yes", code=1, because="cases of no_halt fail")
    shared.authors.publish("v3", {"guards/no_halt.py": Path("/etc/passwd")})
    shared.refused("update", "--yes", code=65, because="is a link or a folder")
    shared.authors.publish("v4", {"guards/no_halt.py": None})
    shared.refused("update", "--yes", code=66, because="has no guard 'no_halt' with cases")


def test_without_its_source_a_guard_stays(shared: SharedGuards) -> None:
    shared.add()
    shared.authors.folder.rename(shared.place.folder / "away")

    shared.refused("update", "--yes", code=66, because="what you have stays as it is")
    shared.refused("outdated", code=1, because="cannot be read")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_a_terminal_or_a_timer_ends_git_and_removes_what_it_fetched(
    shared: SharedGuards, number: signal.Signals
) -> None:
    shared.add()
    shared.lock.write_text(shared.lock.read_text().replace(str(shared.authors.folder), "git@example.com:guards"))
    programs, temporary = shared.place.folder / "bin", shared.place.folder / "temporary"
    for folder in (programs, temporary):
        folder.mkdir()
    for name in ("started", "never"):
        os.mkfifo(programs / name)
    (programs / "ssh").write_text(f"#!/bin/sh\necho $$ > {programs}/started\nread -r line < {programs}/never\n")
    (programs / "ssh").chmod(0o755)
    shared.place.environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    command = shared.place.begin("guards", "outdated")
    ssh = psutil.Process(int((programs / "started").read_text()))
    command.signal(number)

    assert command.end()[0] == 128 + number
    ssh.wait(PATIENCE)
    assert [*temporary.iterdir()] == []


def test_a_lock_whose_digest_is_not_that_of_its_commit_is_refused(shared: SharedGuards) -> None:
    shared.add()
    shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt")})
    shared.lock.write_text(shared.lock.read_text().replace(sha256(shared.guard.read_bytes()).hexdigest(), "0" * 64))

    shared.refused("update", "--yes", code=65, because="has not the digests of")


def test_an_edit_is_a_note_and_a_lock_that_cannot_be_read_an_error(shared: SharedGuards) -> None:
    shared.add()
    shared.guard.write_text(shared.guard.read_text() + "# mine\n")

    checked = shared.place.run("check")
    assert checked.returncode == 0, checked.stdout
    assert "no_halt.py: was edited since it was taken from" in checked.stdout
    hints = [hint["what"] for hint in shared.place.json("doctor", code=1)["hints"]]
    assert any("no_halt.py was edited since" in hint for hint in hints)

    locked = json.loads(shared.lock.read_text())["guards"]["no_halt"]
    out = {"version": 1, "guards": {"../x": locked}}
    for text in ("{", "", json.dumps(out), json.dumps({"version": 2, "guards": {}})):
        shared.lock.write_text(text)
        checked = shared.place.run("check")
        assert (checked.returncode, "shared-guards.lock cannot be read" in checked.stdout) == (1, True)
    problems = [problem["what"] for problem in shared.place.json("doctor", code=1)["problems"]]
    assert any("shared-guards.lock cannot be read" in problem for problem in problems)
    for words in (["list"], ["outdated"], ["update"], ["forget", "no_halt"], ["add", shared.authors.at("v1")]):
        shared.refused(*words, code=65, because="shared-guards.lock cannot be read")
    shared.lock.unlink()
    shared.lock.symlink_to("nowhere")
    shared.refused("outdated", code=65, because="shared-guards.lock cannot be read")


def test_a_file_that_is_missing_or_unreadable_is_a_problem(shared: SharedGuards) -> None:
    shared.add()

    for lost in (shared.guard, shared.cases):
        data = lost.read_bytes()
        for lose in (lost.unlink, lost.mkdir):
            lose()
            checked = shared.place.run("check")
            assert (checked.returncode, f"{lost.name}: " in checked.stdout) == (1, True), checked.stdout
            problems = shared.place.json("doctor", code=1)["problems"]
            (problem,) = [problem for problem in problems if str(lost) in problem["what"]]
            assert problem["do"].startswith("to have it again: hooklatch guards add ")
            shared.refused("outdated", code=1, because=str(lost))
            (row,) = shared.place.json("guards", "outdated", code=1)
            assert (row["edited"], str(lost) in row["problem"]) == ([], True)
        lost.rmdir()
        lost.write_bytes(data)
        lost.chmod(0o600)

    assert shared.place.run("check").returncode == 0
    assert shared.place.run("guards", "outdated").returncode == 0


def test_a_lock_that_is_a_link_is_read_and_not_replaced(shared: SharedGuards) -> None:
    shared.add()
    shared.authors.publish("v2", {"guards/b.py": guard_of("b", "b"), "guards/b.jsonl": cases_of("b")})
    shared.lock.rename(shared.place.folder / "kept.lock")
    shared.lock.symlink_to(shared.place.folder / "kept.lock")
    before = shared.lock.read_bytes()

    for words in (["update", "--yes"], ["forget", "no_halt"], ["add", shared.authors.at("v2"), "--only", "b", "--yes"]):
        shared.refused(*words, code=73, because="shared-guards.lock is a link, which this command would replace")

    assert shared.lock.read_bytes() == before
    assert shared.place.json("guards", "outdated", code=1)[0]["newer"] == ["v2"]


def test_a_lock_of_others_starts_no_program_by_its_source(shared: SharedGuards) -> None:
    shared.add()
    ran = shared.place.folder / "ran"
    text = json.dumps(f"ext::touch {ran}")[1:-1]
    shared.lock.write_text(shared.lock.read_text().replace(str(shared.authors.folder), text))

    shared.refused("update", "--yes", code=64, because="is not the address of a repository")

    assert not ran.exists()


def test_what_a_crash_left_half_done_is_said_and_completed_by_the_same_command(shared: SharedGuards) -> None:
    shared.add()
    shared.guard.unlink()  # the lock was written, and then the cases
    assert "is not there" in shared.place.run("check").stdout
    (shared.hooks / ".no_halt.py.new").write_text("from hooklatch")  # and half of the guard
    shared.add()
    assert not (shared.hooks / ".no_halt.py.new").exists()
    first = shared.lock.read_text()

    newest = shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt")})
    assert shared.place.run("guards", "update", "--yes").returncode == 0
    shared.lock.write_text(first)  # both files were written, and not yet the lock
    assert "was edited since" in shared.place.run("check").stdout
    assert shared.place.run("guards", "update", "--yes").returncode == 0

    assert json.loads(shared.lock.read_text())["guards"]["no_halt"]["commit"] == newest
    assert "was edited since" not in shared.place.run("check").stdout


def test_where_one_file_cannot_be_written_none_is(shared: SharedGuards) -> None:
    obstacle = shared.hooks / ".no_halt.py.new"
    obstacle.mkdir(parents=True)

    shared.refused("add", shared.authors.at("v1"), "--yes", code=73, because="nothing was written")
    obstacle.rmdir()
    shared.add()
    shared.authors.publish("v2", {
        "guards/no_halt.py": guard_of("no_halt", "halt"), "guards/no_halt.jsonl": cases_of("halt", passing="true"),
    })  # fmt: skip
    obstacle.mkdir()
    shared.refused("update", "--yes", code=73, because="nothing was written")


def test_a_guard_that_was_removed_is_written_again_or_forgotten(shared: SharedGuards) -> None:
    shared.add()
    shared.guard.unlink()
    shared.refused("update", "--yes", code=66, because="hooklatch guards forget no_halt")  # though it is the newest
    shared.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt")})

    shared.refused("update", "--yes", code=66, because="hooklatch guards forget no_halt")
    assert shared.place.json("guards", "forget", "no_halt") == {"forgotten": "no_halt"}

    assert json.loads(shared.lock.read_text()) == {"version": 1, "guards": {}}
    assert shared.cases.exists()
    shared.refused("forget", "no_halt", code=66, because="has no guard 'no_halt'; it has: none")
    assert "no guard is shared" in shared.place.run("guards", "outdated").stdout

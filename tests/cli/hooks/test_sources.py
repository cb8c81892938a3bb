"""[[source]] with git, and `sources update`: real repositories, keys, commands and daemons.

Slow: each command is a process of its own, and runs cases in workers.
"""

from __future__ import annotations

import argparse
import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hooklatch import git_sources
from hooklatch.cli.daemon.acts import find_source
from hooklatch.cli.hooks.sources import check_unchanged, list_tables, write_copy
from hooklatch.cli.terminal.parser import CommandError
from hooklatch.git_sources import GuardLock, find_copy
from hooklatch.service.config.configuration import FileConfig
from hooklatch.service.loading.see import ObservedFiles, read_files
from support.commands import Place, new_place, serving
from support.guard_repositories import GuardAuthors, cases_of, guard_of
from support.tables import table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("git") and shutil.which("ssh-keygen")), reason="git or ssh-keygen is missing"),
]

FIRST: dict[str, str | Path | None] = {
    "guards/no_halt.py": guard_of("no_halt", "halt"),
    "guards/no_halt.jsonl": cases_of("halt"),
    "guards/no_dd.py": guard_of("no_dd", "dd"),
    "guards/no_dd.jsonl": cases_of("dd"),
}
SECOND: dict[str, str | Path | None] = {
    "guards/no_halt.py": guard_of("no_halt", "halt", "reboot"),
    "guards/no_dd.py": None,
    "guards/no_dd.jsonl": None,
    "guards/no_kill.py": guard_of("no_kill", "kill"),
    "guards/no_kill.jsonl": cases_of("kill"),
}


class TeamLayer:
    """A place whose file of hooks names a repository, and its authors with a key of theirs."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.authors = GuardAuthors(place.folder / "authors")
        self.commit = self.authors.publish("v1", FIRST)
        self.key = place.folder / "key"
        self.authors.sign("v1", self.key)
        self.public = self.key.with_suffix(".pub").read_text().strip()
        self.copies = place.config.parent / "git-sources"
        self.name("v1")

    def name(self, rev: str, *signers: str, git: str | None = None) -> None:
        keys = json.dumps([*(signers or [self.public])])
        lines = ["[[source]]", f"git = {json.dumps(git or str(self.authors.folder))}", f"rev = {json.dumps(rev)}"]
        self.place.config.write_text("\n".join([*lines, f"signers = {keys}", ""]))

    def update(self, code: int = 0) -> str:
        done = self.place.run("sources", "update")
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def refused(self, because: str, code: int = 1) -> None:
        """Try an update that is refused, and leaves everything as it was."""
        before = self.content()
        said = self.update(code)
        assert because in said
        assert self.content() == before

    def content(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.copies.rglob("*") if path.is_file()}

    def verdicts(self, *commands: str) -> list[str]:
        """Return what a daemon of its own says of commands."""
        with serving(self.place):
            return [self.verdict(command) for command in commands]

    def verdict(self, command: str) -> str:
        done = self.place.fire_tool("Bash", "--json", command=command)
        return str(json.loads(done.stdout)["verdict"])


@pytest.fixture
def layer() -> Iterator[TeamLayer]:
    with new_place({}) as place:
        yield TeamLayer(place)


def test_a_layer_is_fetched_whole_and_in_force_and_no_daemon_needs_the_repository_again(layer: TeamLayer) -> None:
    assert layer.verdicts("ls", "halt") == ["deny", "deny"]  # nothing was fetched, so nothing passes
    assert "v1 is not here; to fetch it: hooklatch sources update\n" in layer.place.run("check").stdout

    assert f"v1 is updated (commit {layer.commit})" in layer.update()

    shutil.rmtree(layer.authors.folder)
    assert layer.verdicts("ls", "halt", "dd") == ["pass", "deny", "deny"]
    (row,) = layer.place.json("sources")
    assert (row["here"], row["commit"], row["guards"], row["problem"]) == (
        "v1",
        layer.commit,
        ["no_dd", "no_halt"],
        None,
    )
    assert layer.place.run("check").returncode == 0
    assert {path.stat().st_mode & 0o777 for path in layer.copies.rglob("*") if path.is_file()} == {0o600}
    layer.refused("cannot be read", code=66)  # and what is there stays
    assert layer.verdicts("halt", "ls") == ["deny", "pass"]


def test_a_daemon_takes_an_update_as_one_revision_and_keeps_the_last_one_until_then(layer: TeamLayer) -> None:
    layer.update()
    second = layer.authors.publish("v2", {**SECOND, "guards/more.toml": "", "guards/linux/no_rm.py": ""})
    layer.authors.sign("v2", layer.key)

    with serving(layer.place):
        assert [layer.verdict(command) for command in ("dd", "reboot", "kill")] == ["deny", "pass", "pass"]
        layer.name("v2")
        assert layer.place.run("reload").returncode == 1
        status = layer.place.json("status", code=1)
        assert any("v1 stays active, since v2 is not here" in problem["message"] for problem in status["problems"])
        assert [fault["do"] for fault in status["wrong"]] == ["hooklatch sources update"]
        assert [layer.verdict(command) for command in ("dd", "reboot", "ls")] == ["deny", "pass", "pass"]

        said = layer.update()
        assert f"v2 is updated (commit {second})" in said
        assert "guards that it has no more, and that guard nothing now: no_dd\n" in said
        assert "left out, since they are not guards with cases: linux, more.toml\n" in said

        assert layer.place.run("reload").returncode == 0
        assert [layer.verdict(command) for command in ("dd", "reboot", "kill")] == ["pass", "deny", "deny"]
        assert layer.place.json("status")["health"] == "green"


def test_the_watch_notices_an_update_by_itself(layer: TeamLayer) -> None:
    with serving(layer.place), layer.place.begin("watch", "--json").process as watch:
        assert watch.stdout is not None
        layer.update()
        for line in watch.stdout:  # until it says that the revision with these hooks is there
            if "no_halt" in line:
                break
        assert layer.verdict("ls") == "pass"
        watch.kill()


def test_a_commit_needs_no_signature_and_once_it_is_here_no_network(layer: TeamLayer) -> None:
    layer.place.config.write_text(f'[[source]]\ngit = "{layer.authors.folder}"\nrev = "{layer.commit}"\n')

    assert "is updated" in layer.update()
    shutil.rmtree(layer.authors.folder)

    assert "is current" in layer.update()
    assert layer.verdicts("halt") == ["deny"]


@table(
    ("lines", "because"),
    [
        (['rev = "main"'], "is not a whole commit id"),
        (['rev = "1613cf6157915da2e09b8c7d4fcac71cc1d2f66"'], "is not a whole commit id"),
        (['rev = "v1"', "signers = []"], "is not a whole commit id"),
        ([], "git needs a rev"),
        (['rev = "v1"', 'signers = ["ssh-ed25519 AAAA\\n* ssh-ed25519 BBBB"]'], "signers"),
        (['rev = "v1"', 'signers = ["cert-authority ssh-ed25519 AAAA"]'], "signers"),
        (['rev = "v1"', 'signers = ["ssh-ed25519 AAAA"]', 'path = "guards.py"'], "a source needs path"),
    ],
)  # fmt: skip
def test_a_revision_that_others_can_move_is_refused_when_it_is_loaded(lines: list[str], because: str) -> None:
    with new_place({"hooks.toml": "\n".join(["[[source]]", 'git = "https://example.com/a.git"', *lines, ""])}) as place:
        checked = place.run("check")
        updated = place.run("sources", "update")

    assert (checked.returncode, because in checked.stdout) == (1, True), checked.stdout
    assert (updated.returncode, because in updated.stderr) == (65, True), updated.stderr


def test_a_tag_counts_only_with_the_signature_of_a_named_key_for_this_tag_of_this_commit(layer: TeamLayer) -> None:
    layer.update()
    authors = layer.authors
    authors.publish("v2", SECOND)  # annotated, and not signed
    layer.name("v2")
    layer.refused("is not signed by a key of signers")
    authors.git("tag", "--force", "v2", "HEAD")  # without a message
    layer.refused("is not signed: it has no message")
    authors.sign("v2", layer.place.folder / "other")
    layer.refused("is not signed by a key of signers")
    signed = authors.git("rev-parse", "v1")
    authors.git("update-ref", "refs/tags/v2", signed)  # the signed tag of the version before, as the new one
    layer.refused("made under another name")
    forged = authors.git("cat-file", "tag", "v1").replace("tag v1", "tag v2", 1)
    made = authors.git("hash-object", "-t", "tag", "-w", "--stdin", stdin=forged.encode() + b"\n")
    authors.git("update-ref", "refs/tags/v2", made)
    layer.refused("is not signed by a key of signers")
    authors.sign("nested", layer.key, "v1")
    nested = authors.git("cat-file", "tag", "nested").replace("tag nested", "tag v2", 1)
    made = authors.git("hash-object", "-t", "tag", "-w", "--stdin", stdin=nested.encode() + b"\n")
    authors.git("update-ref", "refs/tags/v2", made)
    layer.refused("of another object")

    authors.sign("v2", layer.key)
    assert "v2 is updated" in layer.update()
    assert layer.verdicts("kill", "dd") == ["deny", "pass"]


def test_no_program_of_the_users_git_decides_about_a_signature(layer: TeamLayer) -> None:
    ran = layer.place.folder / "ran"
    program = layer.place.folder / "verifier"
    program.write_text(f"#!/bin/sh\ntouch {ran}\necho '[GNUPG:] GOODSIG 0 x' >&1\necho '[GNUPG:] TRUST_ULTIMATE' >&1\n")
    program.chmod(0o755)
    (layer.place.folder / ".gitconfig").write_text(
        f'[gpg]\nprogram = {program}\nformat = openpgp\n[gpg "ssh"]\nprogram = {program}\n'
        f'[gpg "openpgp"]\nprogram = {program}\n[gpg "x509"]\nprogram = {program}\n'
    )
    for form in ("PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE", "SSH SIGNATURE"):
        text = layer.authors.git("cat-file", "tag", "v1").partition("-----BEGIN")[0]
        forged = f"{text}-----BEGIN {form}-----\n\nAAAA\n-----END {form}-----\n"
        made = layer.authors.git("hash-object", "-t", "tag", "-w", "--stdin", stdin=forged.encode())
        layer.authors.git("update-ref", "refs/tags/v1", made)
        layer.refused("is not signed by a key of signers")

    assert not ran.exists()


def test_a_key_that_is_not_trusted_any_more_takes_its_copy_with_it(layer: TeamLayer) -> None:
    layer.update()
    layer.authors.sign("other", layer.place.folder / "other")
    layer.name("v1", (layer.place.folder / "other.pub").read_text().strip())

    assert layer.verdicts("ls") == ["deny"]
    layer.refused("is not signed by a key of signers")


def test_a_signed_tag_that_moved_is_refused_and_the_copy_stays(layer: TeamLayer) -> None:
    layer.update()
    layer.authors.publish("v2", SECOND)
    layer.authors.sign("v1", layer.key)

    layer.refused("THE TAG v1 OF")
    layer.authors.git("tag", "--delete", "v1")
    layer.refused("has no tag 'v1'", code=66)

    assert layer.verdicts("dd", "kill") == ["deny", "pass"]


def test_a_pushed_over_history_leaves_the_commit_that_is_named(layer: TeamLayer) -> None:
    layer.place.config.write_text(f'[[source]]\ngit = "{layer.authors.folder}"\nrev = "{layer.commit}"\n')
    layer.update()
    layer.authors.git("checkout", "--quiet", "--orphan", "other")
    layer.authors.publish("v1", SECOND)
    layer.authors.git("branch", "--delete", "--force", "main")
    layer.authors.git("reflog", "expire", "--expire=now", "--all")
    layer.authors.git("gc", "--quiet", "--prune=now")

    assert "is current" in layer.update()
    shutil.rmtree(layer.copies)
    assert "cannot be read" in layer.update(code=66)  # it is nowhere any more, so every gate is denied
    assert layer.verdicts("ls") == ["deny"]


@table(
    ("files", "because", "code"),
    [
        ({"guards/no_halt.jsonl": cases_of("poweroff")}, "cases of no_halt fail", 1),
        ({"guards/helper.py": "x = 1\n"}, "helper.py of", 65),
        ({"guards/no\ndd.py": "x = 1\n"}, "is no guard with cases", 65),
        ({"guards/no_halt.py": Path("/etc/passwd")}, "is a link or a folder", 65),
        ({"guards/no_halt.py": "# coding: raw_unicode_escape\n" + guard_of("no_halt", "halt")}, "encoding", 65),
        (dict.fromkeys(FIRST, None), "0 guards", 66),
    ],
)  # fmt: skip
def test_of_a_hostile_commit_nothing_is_taken(
    layer: TeamLayer, files: dict[str, str | Path | None], because: str, code: int
) -> None:
    layer.authors.git("reset", "--quiet", "--hard", "v1^{commit}")
    layer.name("v1")
    layer.update()
    layer.authors.publish("v2", files)
    layer.authors.sign("v2", layer.key)
    layer.name("v2")

    layer.refused(because, code=code)

    assert layer.verdicts("halt", "dd", "ls") == ["deny", "deny", "pass"]


def test_a_commit_that_is_too_large_is_not_taken(layer: TeamLayer) -> None:
    layer.update()
    layer.authors.publish("v2", {"guards/large.py": "#" * (4 * 2**20 + 1), "guards/large.jsonl": ""})
    layer.authors.sign("v2", layer.key)
    layer.name("v2")

    layer.refused("is over 4 MiB", code=65)


def test_what_a_repository_configures_and_attributes_has_no_effect(layer: TeamLayer) -> None:
    ran = layer.place.folder / "ran"
    inner = GuardAuthors(layer.place.folder / "inner")
    inner.publish("v1", {"x.py": "x = 1\n"})
    layer.authors.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.folder), "module")
    layer.authors.publish("v2", {
        ".gitattributes": "*.py filter=evil diff=evil merge=evil export-subst\n",
        ".lfsconfig": "[lfs]\nurl = http://127.0.0.1:9\n",
        "link": Path("/etc"),
        "guards/notes\n.txt": "a name with a line break\n",
    })  # fmt: skip
    layer.authors.sign("v2", layer.key)
    program = f"touch {ran}; cat"
    for name in ("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv",
                 "diff.external", "core.sshCommand", "core.fsmonitor", "uploadpack.packObjectsHook"):  # fmt: skip
        layer.authors.git("config", name, program)
    for name in ("post-checkout", "pre-upload", "post-upload-pack", "reference-transaction"):
        hook = layer.authors.folder / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    layer.name("v2")

    assert "v2 is updated" in layer.update()

    assert not ran.exists()
    assert {path.name for path in layer.copies.rglob("*") if path.is_file()} == {
        "shared-guards.lock", "no_halt.py", "no_halt.jsonl", "no_dd.py", "no_dd.jsonl",
    }  # fmt: skip


def test_what_somebody_changes_in_a_copy_is_not_loaded_and_written_anew(layer: TeamLayer) -> None:
    layer.update()
    (guard,) = layer.copies.rglob("no_halt.py")
    guard.write_text("def no_halt(event):\n    return None\n")

    with serving(layer.place):
        assert [layer.verdict(command) for command in ("ls", "halt")] == ["deny", "deny"]
        (fault,) = layer.place.json("status", code=1)["wrong"]
        asked = argparse.Namespace(runtime_dir=str(layer.place.runtime), daemon_uid=None, session=None)
        with pytest.raises(CommandError, match="is a copy, which would not be loaded once it is changed"):
            find_source(asked, "global/no_dd")  # for the editor of `ui`
    assert fault["do"] == "hooklatch trust, or hooklatch sources update; if that is not meant, put it back"
    (row,) = layer.place.json("sources", code=1)
    assert "is not as it was fetched" in row["problem"]
    assert "is updated" in layer.update()
    assert layer.verdicts("ls", "halt") == ["pass", "deny"]


@table("content", ["", "{}", '{"version": 1, "guards": {}}', "\xff", '{"version": 1, "guards": {"../x": {}}}'])
def test_a_lock_that_is_none_denies_and_is_written_anew(layer: TeamLayer, content: str) -> None:
    layer.update()
    (lock,) = layer.copies.rglob("shared-guards.lock")
    lock.write_text(content, encoding="latin-1")

    assert layer.verdicts("ls") == ["deny"]
    assert "is updated" in layer.update()
    assert layer.verdicts("ls", "halt") == ["pass", "deny"]


def test_a_copy_that_lost_or_gained_a_guard_counts_as_none(layer: TeamLayer) -> None:
    layer.update()
    (lock,) = layer.copies.rglob("shared-guards.lock")
    (guard,) = layer.copies.rglob("no_halt.py")
    content = json.loads(lock.read_text())
    fewer = {**content, "guards": {"no_dd": content["guards"]["no_dd"]}}
    other = {**content, "guards": {name: {**one, "commit": "0" * 40} for name, one in content["guards"].items()}}
    for change in (
        lambda: lock.write_text(json.dumps(fewer)),
        lambda: lock.write_text(json.dumps(other)),
        lambda: guard.with_name("re.py").write_text("# hooklatch: no hooks\n"),
        guard.unlink,
    ):
        change()
        (row,) = layer.place.json("sources", code=1)
        assert (row["here"], row["guards"]) == (None, [])
        assert layer.place.run("check").returncode == 1
        assert "is updated" in layer.update()

    lock.write_text(json.dumps(fewer))
    assert layer.verdicts("halt") == ["deny"]


def test_a_project_names_no_repository(layer: TeamLayer) -> None:
    layer.update()
    project = layer.place.folder / "project"
    hooks = project / ".hooklatch/hooks.toml"
    hooks.parent.mkdir(parents=True, mode=0o700)
    hooks.write_text(f'[[source]]\ngit = "{layer.authors.folder}"\nrev = "{layer.commit}"\n')

    with serving(layer.place):
        said = layer.place.run("trust", str(project))

    assert (said.returncode, "is for a person's own files" in said.stdout + said.stderr) == (1, True)


def test_tables_of_several_files_are_each_in_the_list(layer: TeamLayer) -> None:
    layer.place.write({"hooks.d/team.toml": f'[[source]]\ngit = "../authors"\nrev = "{layer.commit}"\n'})
    (layer.place.folder / "config/authors").symlink_to(layer.authors.folder)  # a path is relative to the file

    rows = layer.place.json("sources", "update")

    assert [(row["git"], row["result"]) for row in rows] == [
        ("../authors", "updated"),
        (str(layer.authors.folder), "updated"),
    ]
    assert len([*layer.copies.iterdir()]) == 2
    assert len(layer.place.json("sources")) == 2
    assert not (layer.place.config.parent / "hooks.d/git-sources").exists()


def test_a_repository_that_is_named_twice_is_refused_since_it_has_one_copy(layer: TeamLayer) -> None:
    layer.update()
    layer.authors.publish("v2", SECOND)
    layer.authors.sign("v2", layer.key)
    layer.place.write({"hooks.d/team.toml": layer.place.config.read_text().replace("v1", "v2")})

    layer.refused("is named 2 times", code=65)
    assert layer.place.run("check").returncode == 1  # each guard is there twice


def test_one_relative_address_in_two_folders_is_two_repositories_with_a_copy_each(layer: TeamLayer) -> None:
    layer.name(layer.commit, git="../authors")
    layer.place.write({"hooks.d/team.toml": f'[[source]]\ngit = "../authors"\nrev = "{layer.commit}"\n'})
    shutil.copytree(layer.authors.folder, layer.place.folder / "config/authors")

    rows = layer.place.json("sources", "update")

    assert [(row["git"], row["result"]) for row in rows] == [("../authors", "updated")] * 2
    assert len([*layer.copies.iterdir()]) == 2


def test_an_update_that_took_long_writes_nothing_over_a_newer_one(layer: TeamLayer) -> None:
    layer.update()
    arguments = argparse.Namespace(config=str(layer.place.config))
    (old,) = list_tables(arguments)
    began = find_copy(old.table, old.file)
    layer.authors.publish("v2", SECOND)
    layer.authors.sign("v2", layer.key)
    layer.name("v2")
    layer.update()
    before = layer.content()
    (new,) = list_tables(arguments)

    for place in (old, new):  # the table names another revision by now, and it has another copy
        with pytest.raises(CommandError, match="has changed since this began, and is newer; run it again"):
            write_copy(
                began, GuardLock(1, {}), layer.commit, {},
                partial(check_unchanged, arguments, place, began),
            )  # fmt: skip

    assert layer.content() == before


def test_cases_run_as_isolated_as_the_table_wants(layer: TeamLayer) -> None:
    layer.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt", "reboot")})
    layer.authors.sign("v2", layer.key)
    layer.name("v2")
    layer.place.config.write_text(layer.place.config.read_text() + 'python = "/nowhere/python"\n')

    layer.refused("cases of no_dd, no_halt fail")


def test_an_update_that_is_killed_at_any_moment_leaves_the_copy_that_was_there(layer: TeamLayer) -> None:
    layer.update()
    second = layer.authors.publish("v2", SECOND)
    layer.authors.sign("v2", layer.key)
    (root,) = layer.copies.iterdir()
    half = root / second
    half.mkdir(mode=0o700)
    (half / "no_halt.py").write_text("half of it")
    layer.name("v2")

    assert layer.verdicts("dd", "kill") == ["deny", "pass"]
    assert "v2 is updated" in layer.update()
    assert layer.verdicts("dd", "kill", "reboot") == ["pass", "deny", "deny"]


def test_a_shortage_while_a_lock_is_read_keeps_the_last_version_and_is_tried_again(
    layer: TeamLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer.update()
    main = str(layer.place.config)
    before = read_files(main, f"{main}.d", (), ObservedFiles())

    def fail(path: str) -> bytes:
        raise OSError(errno.EMFILE, "too many open files", path)

    monkeypatch.setattr(git_sources, "read_safely", fail)
    seen = read_files(main, f"{main}.d", (), before)

    assert isinstance(before.files[main], FileConfig)
    assert seen.files[main].is_passing


def test_without_the_product_a_table_with_git_is_refused(layer: TeamLayer) -> None:
    code = (
        "import sys; sys.modules['hooklatch.git_sources'] = None\n"
        "from hooklatch.service.loading.see import ObservedFiles, read_files\n"
        "seen = read_files(sys.argv[1], sys.argv[1] + '.d', (), ObservedFiles())\n"
        "print(seen.files[sys.argv[1]].message)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(layer.place.config)], capture_output=True, text=True, check=True
    )

    assert "it is unknown which hooks it holds" in said.stdout

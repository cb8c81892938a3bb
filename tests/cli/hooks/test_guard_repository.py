"""Addresses and revisions that are accepted, and the limits of what git may do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hooklatch.cli.hooks.guard_repository import GuardRepository, RemoteRefs, parse_address, split_revision
from hooklatch.cli.terminal.parser import CommandError
from support.daemons import nothing_left
from support.guard_repositories import GuardAuthors
from support.tables import table

WITH_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@table(
    ("text", "url", "protocols"),
    [
        ("github:owner/name", "https://github.com/owner/name.git", "https:ssh"),
        ("github:owner/.name.git", "https://github.com/owner/.name.git", "https:ssh"),
        ("https://example.com:8443/a/b.git", "https://example.com:8443/a/b.git", "https:ssh"),
        ("ssh://git@example.com/a/b", "ssh://git@example.com/a/b", "https:ssh"),
        ("git@example.com:a/b.git", "git@example.com:a/b.git", "https:ssh"),
        ("/srv/guards", "/srv/guards", "file"),
        ("/srv/a@b:c::d", "/srv/a@b:c::d", "file"),
    ],
)
def test_an_address_is_accepted(text: str, url: str, protocols: str) -> None:
    assert parse_address(text) == (text, url, protocols)
    assert split_revision(f"{text}@v1") == ((text, url, protocols), "v1")


@table(
    "text",
    [
        "", "-v", "--upload-pack=x", "ext::sh -c x", "ext::sh", "fd::1", "file:///srv/guards", "http://example.com/a",
        "git://example.com/a", "https://token@example.com/a", "https://user:pass@example.com/a", "https://-x/a",
        "ssh://-oProxyCommand=x/a", "ssh://git@-oProxyCommand=x/a", "-oProxyCommand=x@example.com:a",
        "git@-oProxyCommand=x:a", "github:-o/x", "github:o/../x", "github:o", "owner/name", "https://example.com",
        "https://example.com/a b", "https://example.com/a\nb", "/srv/\0x", "/srv/\nx", "a@b::c", "ext::x@host:y",
    ],
)  # fmt: skip
def test_an_address_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not the address of a repository"):
        parse_address(text)


@table("rev", ["", "-x", "--help", "a..b", "a b", "v1^{}", "HEAD~1", "@{-1}", "a:b", "x" * 201, "v1\n", "é"])
def test_a_revision_is_refused(rev: str) -> None:
    with pytest.raises(CommandError):
        split_revision(f"/srv/guards@{rev}")


@table("word", ["github:owner/name", "git@example.com:a/b", "https://user@example.com/a", "@v1"])
def test_a_source_without_a_revision_is_refused(word: str) -> None:
    with pytest.raises(CommandError):
        split_revision(word)


def test_newer_tags_are_those_of_the_same_kind_by_number() -> None:
    tags: dict[str, str] = dict.fromkeys(
        ("v1.2", "v1.10", "v1.9", "v2.0-rc1", "2.0", "git-v3", "v1.3b", "latest", "v1"), "0" * 40
    )

    refs = RemoteRefs(tags, {}, None)

    assert refs.list_newer_tags("v1.2") == ["v1.9", "v1.10"]
    assert refs.list_newer_tags("latest") == []


@WITH_GIT
def test_guards_are_read_over_ssh_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authors = GuardAuthors(tmp_path / "authors")
    commit = authors.publish("v1", {"a.py": "x = 1\n", "a.jsonl": "{}\n"})
    ssh = tmp_path / "ssh"  # runs here what would run on the host
    ssh.write_text('#!/bin/sh\nfor command; do :; done\neval "exec $command"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with nothing_left(), GuardRepository(parse_address(f"git@example.com:{authors.folder}")) as repository:
        refs = repository.list_refs()
        repository.fetch(commit, tag="v1")
        guards, left_out = repository.read_guards(commit, ())

    assert (refs.tags, refs.head) == ({"v1": commit}, commit)
    assert (guards, left_out) == ({"a": ("{}\n", "x = 1\n")}, [])


@WITH_GIT
def test_a_repository_that_is_too_large_is_refused(tmp_path: Path) -> None:
    authors = GuardAuthors(tmp_path / "authors")
    (authors.folder / "large").write_bytes(os.urandom(2**20))
    commit = authors.publish("v1", {})

    address = parse_address(str(authors.folder))
    with nothing_left():
        with GuardRepository(address) as repository:
            repository.fetch(commit, tag="v1")
        with (
            GuardRepository(address, max_pack=2**19) as repository,
            pytest.raises(CommandError, match=r"cannot be read \(git fetch, .*may fetch 0.5 MiB"),
        ):
            repository.fetch(commit, tag="v1")


@WITH_GIT
def test_a_server_that_does_not_answer_is_left_with_all_that_git_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nread -r line < "$0.fifo"\n')
    ssh.chmod(0o755)
    os.mkfifo(tmp_path / "ssh.fifo")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with (
        nothing_left(),
        GuardRepository(parse_address("ssh://example.com/a"), timeout=1.0) as repository,
        pytest.raises(CommandError, match="did not end within 1 s"),
    ):
        repository.list_refs()

"""guards add and sources update from a server over https: git's own, with a certificate of an authority of the test.

Slow: each command is a process of its own, and runs cases in workers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.certificates import Authority
from support.commands import Place, new_place
from support.git_servers import GitServer, serving_git
from support.guard_repositories import GuardAuthors, cases_of, guard_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]

FIRST: dict[str, str | Path | None] = {
    "guards/no_halt.py": guard_of("no_halt", "halt"),
    "guards/no_halt.jsonl": cases_of("halt"),
}


class Served:
    """A place whose git trusts an authority, authors, and the server that has their repository."""

    def __init__(self, place: Place, server: GitServer, authors: GuardAuthors) -> None:
        self.place, self.server, self.authors = place, server, authors
        self.commit = authors.publish("v1", FIRST)
        self.address = f"{server.address}/authors/.git"
        self.lock = place.config.parent / "shared-guards.lock"

    def refused(self, because: str) -> str:
        done = self.place.run("guards", "add", f"{self.address}@v1", "--yes")
        assert (done.returncode, because in done.stderr) == (66, True), done.stdout + done.stderr
        assert not self.lock.exists()
        assert not (self.place.config.parent / "hooks.d").exists()
        return done.stderr


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    authority = Authority(tmp_path)
    with new_place({}) as place, serving_git(tmp_path, authority) as server:
        (place.folder / ".gitconfig").write_text(f"[http]\nsslCAInfo = {authority.certificate}\n")
        yield Served(place, server, GuardAuthors(tmp_path / "authors"))


def test_guards_are_added_and_updated_over_https(served: Served) -> None:
    added = served.place.json("guards", "add", f"{served.address}@v1", "--yes")

    assert [guard["name"] for guard in added["guards"]] == ["no_halt"]
    locked = json.loads(served.lock.read_text())["guards"]["no_halt"]
    assert (locked["source"], locked["commit"]) == (served.address, served.commit)
    assert any("git-upload-pack" in path for path in served.server.asked)

    second = served.authors.publish("v2", {"guards/no_halt.py": guard_of("no_halt", "halt", "reboot")})
    (row,) = served.place.json("guards", "outdated", code=1)
    assert row["newer"] == ["v2"]
    (row,) = served.place.json("guards", "update", "--yes")
    assert (row["result"], row["commit"]) == ("updated", second)


def test_a_commit_that_no_tag_names_is_added_over_https(served: Served) -> None:
    served.authors.git("tag", "--delete", "v1")

    assert served.place.run("guards", "add", f"{served.address}@{served.commit}", "--yes").returncode == 0
    assert json.loads(served.lock.read_text())["guards"]["no_halt"]["rev"] == served.commit


def test_a_layer_is_fetched_over_https_and_stays_without_the_server(served: Served) -> None:
    served.place.config.write_text(f'[[source]]\ngit = "{served.address}"\nrev = "{served.commit}"\n')
    assert served.place.run("sources", "update").returncode == 0
    served.server.status = 500
    asked = len(served.server.asked)

    assert served.place.run("sources", "update").returncode == 0
    assert len(served.server.asked) == asked
    assert served.place.run("check").returncode == 0


def test_a_server_whose_certificate_is_not_trusted_is_refused(served: Served) -> None:
    (served.place.folder / ".gitconfig").unlink()

    assert "certificate" in served.refused("cannot be read (git ls-remote")
    assert served.server.asked == []


def test_a_server_leads_to_no_other_protocol(served: Served, tmp_path: Path) -> None:
    for moved in ("http://127.0.0.1:9", f"file://{tmp_path}", "ftp://127.0.0.1:9"):
        served.server.moved = moved
        said = served.refused("cannot be read (git ls-remote")
        assert "disabled or unsupported" in said or "not supported" in said or "not allowed" in said, said


def test_a_server_that_wants_a_password_asks_nobody(served: Served) -> None:
    served.server.status = 401

    served.refused("terminal prompts disabled")


def test_a_server_that_breaks_off_leaves_nothing(served: Served) -> None:
    served.server.status = 503

    served.refused("503")

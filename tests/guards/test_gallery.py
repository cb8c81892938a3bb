"""The guards of the gallery: each case says what it does, and the page shows the same cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from guards.gallery import NAMES, NOT_STOPPED, PURE, answers_to, cases
from guards.page import PAGE, page
from hooklatch.cli.testing.cases import Case
from hooklatch.core.hooks.catalogue import Catalogue
from hooklatch.guards import commands, packages_installed
from hooklatch.guards.gallery import git_rules, package_installs, protected_paths
from support.tables import table

A_CHAIN = 'git checkout -b f 2>/dev/null && git add . && git commit -m "$(cat m)" && git push -u origin HEAD'
A_SWITCH = "git switch main; git pull && git switch -c f && \\\n git push"


@table(("name", "case"), [(name, case) for name in PURE for case in cases(name)], ids=str)
def test_a_guard_answers_as_its_case_says(name: str, case: Case) -> None:
    answers = answers_to(name, case)
    verdicts = [answer["verdict"] for answer in answers if "verdict" in answer]
    patches = [answer["patch"] for answer in answers if "patch" in answer]

    expected = case.expected.verdict
    assert verdicts == ([] if expected == "pass" else [expected]), case.name
    assert patches == ([case.expected.patch] if case.expected.patch else []), case.name


@pytest.mark.parametrize("name", NAMES)
def test_each_guard_says_what_it_does_not_stop(name: str) -> None:
    found = cases(name)

    assert [case for case in found if case.name.startswith(NOT_STOPPED)]
    assert all(case.expected.verdict == "pass" for case in found if case.name.startswith(NOT_STOPPED))
    assert len({case.name for case in found}) == len(found)
    assert all(case.params.event in Catalogue.standard() for case in found)


def test_the_page_shows_every_case() -> None:
    assert PAGE.read_text() == page(), "write it anew: python tests/guards/page.py"


def test_a_pattern_of_the_shell_is_what_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / ".env").touch()
    (tmp_path / "a.txt").touch()

    assert protected_paths.judge_text("echo x > .e*v", str(tmp_path)).verdict == "deny"
    assert protected_paths.judge_text("rm .[^a]nv", str(tmp_path)).verdict == "deny"
    assert protected_paths.judge_text("rm *.txt", str(tmp_path)) is None


@table(
    ("command", "instead"),
    [
        ("git push -f origin x", "git push --force-with-lease origin x"),
        (" cd a && git push origin --force x ", "cd a && git push origin --force-with-lease x"),
        ("git push --force origin main", None),  # that is refused too
        ("git push -f --mirror", None),
        ("git push origin +x", None),
        ("git push -f origin x && git push -f origin y", None),
        ("git push -f origin " + "x" * 500, None),
        ("git commit --no-verify -m x", None),
    ],
)
def test_a_forced_push_is_refused_with_the_gentler_one_that_would_pass(command: str, instead: str | None) -> None:
    answer = git_rules.judge_text(command, "/srv/app/web", is_sure=True)

    assert (answer.verdict, answer.instead) == ("deny", instead)


def test_a_push_without_a_name_is_one_of_the_branch_that_is_checked_out(tmp_path: Path) -> None:
    head = tmp_path / "work" / ".git" / "HEAD"
    head.parent.mkdir(parents=True)
    (tmp_path / "tree" / "below").mkdir(parents=True)
    (tmp_path / "tree" / ".git").write_text("gitdir: ../work/.git\n")
    (head.parent / "refs" / "heads").mkdir(parents=True)
    (head.parent / "refs" / "heads" / "f").touch()
    (head.parent / "packed-refs").write_text("# pack-refs with: peeled\n" + "0" * 40 + " refs/heads/p\n")

    def verdict(text: str, place: str) -> str | None:
        found = commands(text)
        at = max(at for at, one in enumerate(found) if one.program == "git" and "commit" not in one.text)
        about = git_rules.judge_current_branch(text, found, at, str(tmp_path / place))
        return None if about is None else about.verdict

    for branch, expected in (("main", "deny"), ("feature/main", None)):
        head.write_text(f"ref: refs/heads/{branch}\n")
        for text in (
            "git push", "git push -u origin HEAD", "cd ../work && git push origin", "git -C ../work push -q",
            "git push -o --tags", "git push -o x origin", "git push --tags origin HEAD", "git push -n --no-dry-run",
            "git --git-dir=../work/.git push", "git send-pack x",
            "git checkout -b f; git push", "git checkout -b f || git push", "! git checkout -b f && git push",
            "x || git checkout -b f && git push", "git checkout -b f | cat && git push", "git checkout -b f & git push",
            "git checkout -b f --help && git push", "git checkout f && git push", "git checkout main -- f && git push",
            "git -C . checkout -b f && git push", "echo 'git checkout -b f && git push'; git push",
            "echo $(git checkout -b f) && git push", "git checkout -b f &>/dev/null && git push",
            "git checkout -b p; git push", "git switch -c f/g\ngit push", "git checkout -b a.lock; git push",
            "git checkout -b a b; git push", "git switch a; git push", "git checkout -tb a; git push",
            "x && git checkout -b a; git push", "x || git checkout -b a; git push", "x | git checkout -b a; git push",
            "if x; then git checkout -b a; fi; git push", "(git checkout -b a); git push",
            "f() { git checkout -b a; }; git push",
        ):  # fmt: skip
            assert verdict(text, "work") == expected, text
        assert verdict("git push", "tree/below") == expected
        for text in (
            "git push origin feature",
            "git push --tags",
            "git push --dry-run",
            "git push -n",
            A_CHAIN,
            A_SWITCH,
            "git checkout -b a; git push",
            'set -e\ngit switch -c a/b 2>&1 | tail -1\ngit add -A && git commit -m "$(cat m)"\ngit push -u origin HEAD',
            "git stash; git checkout -b a && git stash pop; git push",
        ):
            assert verdict(text, "work") is None, text
        for text in (
            "git checkout main && git push",
            "git checkout -b a; git checkout main; git push",
            "git switch -c f && git branch -M main && git push",
        ):
            assert verdict(text, "work") == "deny", text
    assert verdict("git push", "") is None


def test_a_branch_that_cannot_be_read_is_asked_about(tmp_path: Path) -> None:
    head = tmp_path / ".git" / "HEAD"
    head.mkdir(parents=True)
    (text,) = found = commands("git push")

    assert git_rules.judge_current_branch(text.text, found, 0, str(tmp_path)).verdict == "ask"
    (tmp_path / ".git" / "MERGE_HEAD").touch()
    busy = commands("git checkout -b a; git push")
    assert git_rules.judge_current_branch("git checkout -b a; git push", busy, 1, str(tmp_path)).verdict == "ask"
    head.rmdir()
    for said in ("ref: refs/heads/.invalid\n", "", "ref: x"):
        head.write_text(said)
        assert git_rules.judge_current_branch(text.text, found, 0, str(tmp_path)).verdict == "ask"
    head.write_text("a" * 40)
    assert git_rules.judge_current_branch(text.text, found, 0, str(tmp_path)) is None
    head.unlink()
    head.symlink_to("refs/heads/main")
    assert git_rules.judge_current_branch(text.text, found, 0, str(tmp_path)).verdict == "deny"


def test_what_the_project_has_installed_is_run_without_a_question(tmp_path: Path) -> None:
    (tmp_path / "node_modules" / ".bin").mkdir(parents=True)
    (tmp_path / "node_modules" / ".bin" / "tsc").touch()

    def is_there(text: str) -> bool:
        (command,) = [one for one in commands(text) if one.program == "npx"]
        return package_installs.is_there(command, packages_installed(command) or [], str(tmp_path))

    assert is_there("npx tsc --noEmit")
    assert is_there("npx --no-install other")
    assert not is_there("npx other")
    assert not is_there("npx other --no-install")
    assert is_there("npx -y tsc -p .")
    assert not is_there("npx tsc@latest")
    assert not is_there("npx -p other tsc")
    assert not is_there("cd x && npx tsc")
    assert not is_there("npx ../../x")

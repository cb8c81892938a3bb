"""Paths are placed before guards compare them: folders, homes, links, patterns, and what find really leaves out."""

from __future__ import annotations

import ast
import importlib
import os
from pathlib import Path as File
from typing import Any

import pytest

from guards.calls_of_tools import Event, may_call_hook, verdict
from guards.path_shapes import REMOVING, WRITING
from hooklatch.guards import Word, commands
from hooklatch.guards.gallery import destructive_commands, git_rules, protected_paths
from hooklatch.guards.paths import PathResolver, PlacedPath
from hooklatch.guards.paths.finding import measure_left_out
from hooklatch.guards.paths.patterns import is_wide
from support.tables import table

LOST = [text for texts in REMOVING.values() for text in texts]
ELSEWHERE = [text for text in LOST if "rm -rf etc" in text and "-c alias" not in text]
GALLERY = File(str(importlib.import_module("hooklatch.guards.gallery.git_rules").__file__)).parent


BRANCHES = {"git_rules", "format_after_edit"}  # ask for slashes in names of branches, and of files on the disk


class Writing:
    """A call of a tool that writes a file, as a guard is given it."""

    tool_kind = "write"
    tool_name = "Write"

    def __init__(self, path: object, cwd: str = "/srv/app/web") -> None:
        self.tool_input = self.tool_args = {"path": path}
        self.cwd = cwd


@table(
    ("guard", "text"),
    [
        *((destructive_commands.destructive_commands, text) for text in LOST),
        *((protected_paths.protected_paths, text) for texts in WRITING.values() for text in texts),
        *((protected_paths.protected_paths, text.replace("rm -rf etc", "touch etc/x")) for text in ELSEWHERE),
        *((git_rules.git_rules, text.replace("rm -rf etc", "git push -f")) for text in ELSEWHERE),
    ],
)
def test_what_is_reached_by_a_detour_is_refused_or_asked_about(guard: Any, text: str) -> None:
    assert verdict(guard, text) != "pass"


@table("text", [text for text in LOST if "rm -rf" in text])
def test_a_condition_calls_its_hook_for_a_detour(text: str) -> None:
    assert may_call_hook("rm", text)


@table("path", [".env\0", "a\0b", "/proc/1/root/etc/passwd", "/proc/1/cwd/x", "x" * 5000, "\udcff", "a/" * 3000, "~\0"])
def test_odd_paths_are_refused_with_a_reason(path: str) -> None:
    answer = protected_paths.protected_paths(Writing(path))

    assert answer.verdict == "deny"
    assert "protected" in answer.reason or "no path" in answer.reason or "no file can have" in answer.reason


def test_a_letter_that_looks_alike_is_another_file() -> None:
    assert protected_paths.protected_paths(Writing(".\u0435nv")) is None
    assert protected_paths.protected_paths(Writing(".ENV")).verdict == "deny"


def test_another_name_of_a_protected_file_is_protected(tmp_path: File) -> None:
    (tmp_path / ".env").write_text("x")
    (tmp_path / "plain").hardlink_to(tmp_path / ".env")
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")

    assert protected_paths.protected_paths(Writing("plain", str(tmp_path))).verdict == "deny"
    assert protected_paths.protected_paths(Writing("b", str(tmp_path))) is None


@pytest.fixture
def tree(tmp_path: File) -> File:
    """Return a folder with folders and links: work/src, work/out -> ../other, work/up -> .., other/deep."""
    base = tmp_path.resolve()
    (base / "work" / "src").mkdir(parents=True)
    (base / "other" / "deep").mkdir(parents=True)
    (base / "work" / "out").symlink_to("../other")
    (base / "work" / "up").symlink_to("..")
    (base / "work" / "loop").symlink_to("loop")
    return base


def lost(text: str, begin: File) -> list[str]:
    """Return what the last word of the last command means, below the folder of the test."""
    found = commands(text)
    paths = PathResolver(str(begin), text, found)
    meant = paths.lost(found[-1].arguments[-1], found[-1])
    return sorted(os.path.relpath(one.whole, begin.parent) if one.is_placed else "?" for one in meant)


@table(
    ("text", "expected"),
    [
        ("rm src", ["work/src"]),
        ("rm ./src//x/../y", ["work/src/y"]),
        ("rm out", ["work/out"]),
        ("rm out/", ["other"]),
        ("rm out/*", ["other"]),
        ("rm out/deep", ["other/deep"]),
        ("rm out/../x", ["x"]),
        ("cd out/..; rm x", ["work/x"]),
        ("cd out; rm x", ["other/x", "work/x"]),
        ("cd out && cd .. && rm x", ["work/x"]),
        ("rm up/other", ["other"]),
        ("rm u*/other", ["other", "work/u*/other"]),
        ("rm loop/x", ["?", "work/loop/x"]),
        ("rm $X", ["?"]),
        ("cd $X && rm a", ["?"]),
        ("ln -s ../other x; rm x", ["work/x"]),
        ("ln -s ../other x; rm x/y", ["other/y", "work/x/y"]),
        ("rm x/y; ln -s ../other x; rm z", ["work/z"]),
        ("mv ../other x; rm x", ["other", "work/x"]),
        ("rm dist; mv ../other dist; rm src", ["work/src"]),
        ("HOME=/x; rm ~/y", ["?"]),
    ],
)
def test_a_word_means_where_it_leads(tree: File, text: str, expected: list[str]) -> None:
    assert lost(text, tree / "work") == expected


def test_a_path_on_another_machine_is_not_here(tree: File) -> None:
    text = "ssh host rm -rf work"
    found = commands(text)
    (path,) = PathResolver(str(tree), text, found).lost(Word("work"), found[-1])

    assert not path.is_here
    assert path.whole == os.path.expanduser("~/work")


def test_more_files_than_anybody_looks_at_are_not_known(tmp_path: File) -> None:
    for at in range(1100):
        (tmp_path / f"a{at}").mkdir()

    assert "?" in lost("rm a*/x", tmp_path)


@table(
    ("path", "folder", "is_below", "may_be_below", "may_be_above"),
    [
        ("/etc/ssl", "/etc", True, True, False),
        ("/etcetera", "/etc", False, False, False),
        ("/e*/ssl", "/etc", False, True, False),
        ("/*", "/srv/app", False, False, True),
        ("/srv/w*", "/srv/web/x", False, False, True),
        ("/srv/*", "/srv/.x/y", False, False, False),
        ("/", "/etc", False, False, True),
    ],
)
def test_a_pattern_may_be_what_it_matches(
    path: str, folder: str, is_below: bool, may_be_below: bool, may_be_above: bool
) -> None:
    one = PlacedPath(path)

    assert one.is_below([folder]) == is_below
    assert one.may_be_below([folder]) == may_be_below
    assert one.may_be_above(folder) == may_be_above


@table(
    ("pattern", "expected"),
    [
        *((one, True) for one in ("*", "?*", "*.*", "[a-y]*", "[!x]*", "[^x]*", "*[a-z]", "[[:alpha:]]*", ".*", ".g*")),
        *((one, False) for one in ("*.pyc", "*.log", "test*", "a*", "[abc]*", "src", "x?", "*.py", "*-old", "", ".e*")),
    ],
)
def test_a_pattern_that_leaves_out_little_is_wide(pattern: str, expected: bool) -> None:
    assert is_wide(pattern) == expected


@table(
    ("text", "expected"),
    [
        ("find . -name '*.pyc' -delete", "most"),
        ("find . -type d -name __pycache__ -exec rm -rf {} +", "most"),
        ("find . -type d -name node_modules -prune -exec rm -rf {} +", "most"),
        ("find . '(' -name '*.pyc' -o -name '*.pyo' ')' -delete", "most"),
        ("find . -path ./node_modules -prune -o -name '*.map' -print -delete", "most"),
        ("find . -type d -empty -delete", "most"),
        ("find . -maxdepth 1 -name '*.log' -mtime +3 -delete", "most"),
        ("find . -mtime +3 -delete", "unknown"),
        ("find . -newer x -delete", "unknown"),
        ("find . -name $X -delete", "unknown"),
        ("find . -path './.git/*' -prune -o -mtime +3 -delete", "unknown"),
        ("find . -delete", "little"),
        ("find . -name '*' -delete", "little"),
        ("find . ! -name x -delete", "little"),
        ("find . -type f -delete", "little"),
        ("find . -path '*/objects/*' -delete", "little"),
        ("find . -name x -o -name '*' -delete", "little"),
        ("find . -name x , -delete", "little"),
        ("find . -false -o -delete", "little"),
        ("find . -type f", "little"),
    ],
)
def test_conditions_of_find_are_judged_by_what_they_leave_out(text: str, expected: str) -> None:
    found = [one for one in commands(text) if one.program == "find"]

    assert measure_left_out(found[0]) == expected


@table("name", sorted(path.stem for path in GALLERY.glob("*.py")))
def test_no_guard_compares_the_beginning_of_a_path_by_its_letters(name: str) -> None:
    tree = ast.parse((GALLERY / f"{name}.py").read_text())
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith"
    ]
    told = [str(one.value) for call in calls for one in ast.walk(call.args[0]) if isinstance(one, ast.Constant)]

    assert not [one for one in told if one[:1] in ("/", "~") and one != "/"]
    assert not [one for one in told if one == "/" and name not in BRANCHES]


def test_a_call_that_holds_many_words_is_judged_in_time_that_grows_with_them() -> None:
    assert verdict(destructive_commands.destructive_commands, f"rm -rf {'build/a* ' * 100}") == "pass"
    assert verdict(protected_paths.protected_paths, f"touch {'a/b/c ' * 1900}") == "pass"
    assert Event("x").cwd == "/srv/app/web"


@pytest.mark.parametrize("text", ["deploy.bat now", "DEPLOY.BAT", "./deploy.bat x", "deploy.exe"])
def test_a_condition_on_a_program_of_windows_is_met_by_each_way_of_writing_it(text: str) -> None:
    assert may_call_hook("deploy.bat", text)
    assert not may_call_hook("deploy.bat", "ls")

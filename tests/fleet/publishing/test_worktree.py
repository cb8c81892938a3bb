"""Whether a folder is as it was committed: what git says, and what it was told not to say."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hooklatch.fleet.publishing.folder import FolderError, check_clean

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
NAMES = {"guards.py", "lib/words.py"}


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """A folder in a work tree, with everything committed."""
    folder = tmp_path / "repo" / "hooks"
    (folder / "lib").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text("1\n")
    (folder / ".gitignore").write_text("*.log\nlocal.py\n")
    (tmp_path / "repo" / "elsewhere.txt").write_text("1\n")
    git(tmp_path, "init", "-q", "repo")
    git(folder, "add", "-A", "..")
    git(folder, "commit", "-qm", "guards for all")
    return folder


def dirt(folder: Path, names: set[str] = NAMES) -> str:
    with pytest.raises(FolderError) as caught:
        check_clean(str(folder), names)
    return str(caught.value)


def test_a_clean_folder_gives_its_commit(hooks: Path) -> None:
    (hooks.parent / "elsewhere.txt").write_text("changed, and not ours\n")

    commit = check_clean(str(hooks), NAMES)

    assert commit is not None
    assert commit.endswith(" guards for all")


def test_a_folder_in_no_work_tree_is_none_of_gits_business(tmp_path: Path) -> None:
    assert check_clean(str(tmp_path), {"guards.py"}) is None


def test_what_was_not_committed_is_named_with_what_to_do(hooks: Path) -> None:
    (hooks / "guards.py").write_text("2\n")

    text = dirt(hooks)

    assert text.startswith(f"{hooks} is not as it was committed: guards.py; commit, ")
    assert text.endswith("or add --allow-dirty")


def test_staged_removed_and_new_files_are_dirt(hooks: Path) -> None:
    (hooks / "guards.py").write_text("2\n")
    git(hooks, "add", "guards.py")
    (hooks / "new.py").touch()
    (hooks / "lib/words.py").unlink()

    assert ": guards.py, lib/words.py, new.py;" in dirt(hooks, {"guards.py", "new.py"})


def test_an_ignored_file_that_would_go_out_is_dirt_and_one_that_would_not_is_none(hooks: Path) -> None:
    for name in ("local.py", "run.log"):
        (hooks / name).touch()

    assert ": local.py;" in dirt(hooks, {*NAMES, "local.py"})
    assert check_clean(str(hooks), NAMES) is not None


def test_a_change_that_git_was_told_to_overlook_is_dirt(hooks: Path) -> None:
    git(hooks, "update-index", "--assume-unchanged", "guards.py")
    git(hooks, "update-index", "--skip-worktree", "lib/words.py")

    assert ": guards.py, lib/words.py;" in dirt(hooks)


def test_a_repository_within_is_dirt(hooks: Path) -> None:
    (hooks / "inner").mkdir()
    (hooks / "inner/more.py").touch()
    git(hooks, "init", "-q", "inner")

    assert ": inner/more.py;" in dirt(hooks, {*NAMES, "inner/more.py"})


def test_a_name_with_letters_of_any_script_is_found(hooks: Path) -> None:
    (hooks / "größe.py").touch()
    assert ": größe.py;" in dirt(hooks, {*NAMES, "größe.py"})

    git(hooks, "add", "größe.py")
    git(hooks, "commit", "-qm", "more")
    assert check_clean(str(hooks), {*NAMES, "größe.py"}) is not None


def test_a_repository_without_a_commit_is_dirt(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "guards.py").touch()

    assert ": guards.py;" in dirt(tmp_path, {"guards.py"})


def test_a_git_that_cannot_say_is_an_error_and_not_clean(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hooks.parent / ".git/HEAD").unlink()
    with pytest.raises(FolderError, match=r"(?s)git cannot say whether .* --allow-dirty"):
        check_clean(str(hooks), NAMES)

    monkeypatch.setenv("PATH", str(hooks))  # where no git is
    with pytest.raises(FolderError, match="git is not installed"):
        check_clean(str(hooks), NAMES)


def test_what_the_environment_says_of_a_repository_does_not_count(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hooks / "guards.py").write_text("2\n")
    monkeypatch.setenv("GIT_WORK_TREE", str(hooks.parent.parent))
    monkeypatch.setenv("GIT_INDEX_FILE", os.devnull)

    assert ": guards.py;" in dirt(hooks)

"""A folder as it is read for a push: what is in, what is beside, and the one clear error for each thing that is not."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import pytest

from hooklatch.fleet.manifests import MAX_BUNDLE, encode_bundle
from hooklatch.fleet.publishing import folder as reading
from hooklatch.fleet.publishing.folder import FolderError, MissingFolderError, read_folder
from support.strangers import NOBODY, as_nobody, as_root
from support.tables import table


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    folder = tmp_path / "hooks"
    folder.mkdir(mode=0o755)
    write(folder / "guards.py", "GUARDS = 1\n")
    return folder


def write(path: Path, text: str = "", mode: int = 0o644) -> Path:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def refusal(folder: Path) -> str:
    with pytest.raises(FolderError) as caught:
        read_folder(str(folder))
    return str(caught.value)


def test_files_below_are_in_the_bundle_and_tests_and_settings_beside_it(hooks: Path) -> None:
    for name in ("lib/words.py", "checks.toml", "lib/policy-tests.toml"):
        write(hooks / name)
    write(hooks / "fleet.toml", "suspendable = true\n")
    for name in ("policy-tests.toml", "policy-tests.jsonl", "policy-tests/more/ci.jsonl", "policy-tests/payload.json"):
        write(hooks / name)

    folder = read_folder(str(hooks))

    assert list(folder.bundle.files) == ["checks.toml", "guards.py", "lib/policy-tests.toml", "lib/words.py"]
    assert folder.bundle.suspendable
    assert folder.cases == ("policy-tests.jsonl", "policy-tests.toml", "policy-tests/more/ci.jsonl")
    assert "policy-tests/payload.json" in folder.names


def test_what_editors_and_tools_leave_is_left_out_and_named(hooks: Path) -> None:
    for name in ("guards.py~", ".guards.py.swp", "#guards.py#", "__pycache__/guards.cpython-311.pyc", ".git/config"):
        write(hooks / name)
    os.symlink("nobody@host:1", hooks / ".#guards.py")  # the lock of an editor is a link that leads nowhere

    folder = read_folder(str(hooks))

    assert list(folder.bundle.files) == ["guards.py"]
    assert folder.left_out == ("#guards.py#", ".#guards.py", ".git", ".guards.py.swp", "__pycache__", "guards.py~")


def test_equal_folders_give_equal_bundles_whatever_the_order_times_and_modes(tmp_path: Path) -> None:
    digests = set[str]()
    for number, names in enumerate((("a.py", "lib/b.py", "c.toml"), ("c.toml", "lib/b.py", "a.py"))):
        root = tmp_path / str(number)
        root.mkdir(mode=0o755)
        for name in names:
            os.utime(write(root / name, f"# {name}\n", (0o600, 0o644)[number]), (number, number))
        digests.add(hashlib.sha256(encode_bundle(read_folder(str(root)).bundle)).hexdigest())

    assert digests == {"f16d2dcea143ec4ad01af3c8ad4f663fcf9ca18826a989c89ba65a9e173fcf7e"}


def test_each_thing_that_no_bundle_may_hold_is_one_error(hooks: Path) -> None:
    def link() -> None:
        os.symlink("guards.py", hooks / "bad")

    def folder_link() -> None:
        os.symlink("/tmp", hooks / "bad")

    def fifo() -> None:
        os.mkfifo(hooks / "bad", 0o600)

    for make, expected in (
        (link, f"{hooks}/bad is a link; replace it by the file that it leads to"),
        (folder_link, f"{hooks}/bad is a link; replace it by the file that it leads to"),
        (fifo, f"{hooks}/bad is not a regular file"),
        (lambda: write(hooks / "bad", mode=0o666), f"{hooks}/bad is writable by others; fix it with: chmod go-w"),
    ):
        make()
        assert refusal(hooks).startswith(expected)
        (hooks / "bad").unlink()


@table(
    ("name", "expected"),
    [
        (".env", "is hidden, or its name is not plain"),
        (".lib/words.py", "is hidden, or its name is not plain"),
        ("a\\b.py", "is hidden, or its name is not plain"),
        ("a\nb.py", "is hidden, or its name is not plain"),
        ("n" * 201, "is hidden, or its name is not plain"),
        (os.fsdecode(b"caf\xe9.py"), "is not UTF-8; rename it"),
    ],
)
def test_a_name_that_no_bundle_may_have_is_an_error(hooks: Path, name: str, expected: str) -> None:
    path = write(hooks / name)

    text = refusal(hooks)

    path.unlink()
    if path.parent != hooks:
        path.parent.rmdir()
    assert expected in text
    assert "\n" not in text.replace("a\nb.py", "")


def test_a_folder_that_others_can_write_to_is_an_error_also_where_it_is_empty(hooks: Path) -> None:
    (hooks / "lib").mkdir()
    (hooks / "lib").chmod(0o777)

    assert "lib is writable by others; fix it with: chmod go-w" in refusal(hooks)


@as_root
def test_a_file_of_another_user_is_an_error(hooks: Path) -> None:
    os.chown(write(hooks / "theirs.py"), NOBODY, NOBODY)

    assert f"theirs.py belongs to user {NOBODY}" in refusal(hooks)


@as_root
def test_a_file_that_cannot_be_read_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as name:  # not below a folder that only root can enter
        hooks = Path(name)
        hooks.chmod(0o755)
        secret = write(hooks / "secret.py", mode=0o600)

        assert f"{secret} cannot be read: Permission denied" in as_nobody(lambda: read_folder(name))
        hooks.chmod(0o700)
        assert "Permission denied" in as_nobody(lambda: read_folder(f"{name}/lib"))


def test_too_many_bytes_are_an_error_that_names_the_file(hooks: Path) -> None:
    path = hooks / "model.bin"
    with path.open("wb") as file:
        file.truncate(10 * MAX_BUNDLE)  # sparse

    assert refusal(hooks).startswith(f"{path} has {10 * MAX_BUNDLE} bytes, which brings the folder over 4 MiB")


def test_what_is_no_folder_is_an_error(hooks: Path) -> None:
    with pytest.raises(MissingFolderError, match="nowhere does not exist"):
        read_folder(str(hooks / "nowhere"))
    assert "guards.py is not a folder" in refusal(hooks / "guards.py")


@table(
    ("text", "expected"),
    [
        ("suspendible = true", "the file has no key 'suspendible'"),
        ("suspendable = 1", "suspendable"),
        ("[", "fleet.toml: "),
        ("\udcff", "fleet.toml: "),
    ],
)
def test_settings_that_are_wrong_are_an_error(hooks: Path, text: str, expected: str) -> None:
    (hooks / "fleet.toml").write_bytes(text.encode("utf-8", "surrogateescape"))

    refused = refusal(hooks)

    assert expected in refused
    assert refused.endswith("it may say: suspendable = true")


def test_a_folder_that_changes_while_it_is_read_is_an_error(hooks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = reading.read_safely

    def read_while_somebody_saves(path: str, *, maximum: int) -> bytes:
        data = plain(path, maximum=maximum)
        Path(path).write_bytes(data + b"#")
        return data

    monkeypatch.setattr(reading, "read_safely", read_while_somebody_saves)

    assert "changed while it was read" in refusal(hooks)

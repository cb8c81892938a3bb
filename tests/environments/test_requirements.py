"""What a file says that it needs: read as PEP 723 says, and nothing taken for a requirement that is none."""

from __future__ import annotations

import pytest

from hooklatch.environments.requirements import add_lock_file, read_requirements
from hooklatch.processes.environment_slot import Requirements, RequirementsError
from support.tables import table


def block(*lines: str) -> bytes:
    return "\n".join(["import os", "# /// script", *lines, "# ///", "", "x = 1"]).encode()


def test_a_file_without_a_block_needs_nothing() -> None:
    assert read_requirements(b"# /// scripted\nimport os\n") is None
    assert read_requirements(b'text = """\n    # /// script\n"""\n') is None


def test_spelling_and_order_make_no_other_environment() -> None:
    one = read_requirements(block('# requires-python = ">=3.11"', '# dependencies = ["httpx >= 0.28", "attrs"]'))
    other = read_requirements(
        block("#", "# dependencies = [", '#   "attrs", "httpx>=0.28"', "# ]", "# [tool.x]", "# y = 1")
    )

    assert one == Requirements(("attrs", "httpx>=0.28"), ">=3.11")
    assert other is not None
    assert one.digest("p") == other.digest("p") != other.digest("q")


def test_a_mark_of_the_encoding_hides_no_block() -> None:
    found = read_requirements(b"\xef\xbb\xbf# /// script\n# dependencies = ['a']\n# ///\n")

    assert found is not None
    assert found.dependencies == ("a",)


def test_what_is_not_admitted_is_another_python() -> None:
    found = read_requirements(block('# requires-python = ">=3.12,<3.14"'))

    assert found is not None
    assert [found.admits(version) for version in ("3.11.9", "3.12.0", "3.13.1", "3.14.0")] == [False, True, True, False]


@table(
    ("lines", "text", "line"),
    [
        (['# dependencies = ["--index-url=http://elsewhere"]'], "not a requirement", 2),
        (['# dependencies = ["-r /etc/passwd"]'], "not a requirement", 2),
        (['# dependencies = ["a\\n--index-url=http://elsewhere"]'], "not a requirement", 2),
        (
            ['# dependencies = ["a @ https://x.example/a.whl\\n--no-binary=:all:\\nb@https://x.example/b.whl"]'],
            "one line|not a requirement",  # packaging 26.4 refuses it by itself
            2,
        ),
        (['# dependencies = ["a @ https://x.example/a.whl\\r--pre.whl"]'], "one line|not a requirement", 2),
        (["# dependencies = [\"a; os_name == 'b\\u2028--pre'\"]"], "one line", 2),
        (['# dependencies = ["a @ https://x.example/a-1.tar.gz"]'], "not a wheel", 2),
        (['# dependencies = ["a @ git+https://x.example/a.whl"]'], "not a wheel", 2),
        (['# dependencies = ["a @ file:///srv/a#x.whl"]'], "not a wheel", 2),
        (['# dependencies = "httpx"'], "must be a list of texts", 2),
        (["# dependencies = [1]"], "must be a list of texts", 2),
        (['# requires-python = "three"'], "not a version", 2),
        (["# requires-python = 3"], "must be a text", 2),
        (['# dependency = ["httpx"]'], "has no key 'dependency'", 2),
        (["# dependencies = ["], "is not TOML", 2),
        (["# dependencies = " + "[" * 5000], "cannot be read", 2),
        (["# [tool.x]", "# y = " + "9" * 5000], "cannot be read", 2),
        (["# dependencies = ['a ; " + "(" * 5000 + "']"], "cannot be read|not a requirement", 2),
        (["# requires-python = '>=" + "9" * 5000 + "'"], "cannot be read", 2),
        (["# [tool.hooklatch]", '# lock = "a.lock"'], "would lock nothing", 2),
        (["# " + "a." * 30_000 + "a = 1"], "shorten it", 2),
        (["# tool.x = 1"] * 10_000, "shorten it", 2),
    ],
)
def test_what_is_no_requirement_is_refused(lines: list[str], text: str, line: int) -> None:
    with pytest.raises(RequirementsError, match=text) as caught:
        read_requirements(block(*lines))

    assert caught.value.line == line


LOCK = "[tool.hooklatch]", 'lock = "guards.lock"'


def test_a_lock_is_packages_with_their_hashes_and_nothing_else() -> None:
    found = read_requirements(block('# dependencies = ["a"]', *(f"# {line}" for line in LOCK)))
    assert found is not None
    good = (
        b"# by a tool\na==1.0 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n    # via b\nb==2 --hash=sha256:22\n"
    )

    assert (
        add_lock_file(found, good).digest()
        != add_lock_file(found, good.replace(b"22", b"33")).digest()
        != found.digest()
    )
    for bad in (b"a==1.0\n", b"-r other\n", b"--index-url=x\na==1 --hash=sha256:00\n", b"", b"# nothing\n",
                b"a==1 --hash=md5:00\n", b"a==1 --hash=sha256:00 --find-links=x\n",
                b"a @ https://x.example/a.tar.gz --hash=sha256:00\n", b"a @ file:/srv/a.tar.gz --hash=sha256:00\n",
                b"/srv/a.tar.gz --hash=sha256:00\n", b"./a.zip --hash=sha256:00\n", b". --hash=sha256:00\n",
                b"a==1 --hash=sha256:\n", b"a==1 --hash=sha256:00 b==2\n"):  # fmt: skip
        with pytest.raises(RequirementsError, match=r"guards\.lock"):
            add_lock_file(found, bad)


def test_installers_get_what_was_read_of_a_lock_and_no_line_as_it_stands() -> None:
    lock = b"A == 1.0 ; python_version<'4' \\\r\n  --hash=sha256:00 # via b\r\n"

    assert add_lock_file(Requirements(("a",), lock="x"), lock).locked == 'A==1.0; python_version < "4" --hash=sha256:00'


@table("line", ['lock = "/etc/x"', 'lock = "../x"', "lock = 1", "locks = 1"])
def test_what_is_no_lock_is_refused(line: str) -> None:
    with pytest.raises(RequirementsError, match="lock"):
        read_requirements(block('# dependencies = ["a"]', "# [tool.hooklatch]", f"# {line}"))


def test_a_block_that_is_open_or_double_is_refused() -> None:
    with pytest.raises(RequirementsError, match="has no end"):
        read_requirements(b'# /// script\n# dependencies = ["httpx"]\nimport httpx\n')
    with pytest.raises(RequirementsError, match="more than one"):
        read_requirements(block() + b"\n" + block())

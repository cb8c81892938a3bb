"""Shell text as commands: where each runs, what it reads and writes, and what is refused as unreadable."""

from __future__ import annotations

import pytest

from guards.calls_of_tools import verdict
from hooklatch.guards import UnreadableCommandError, commands, hosts_reached, packages_installed, paths_written
from hooklatch.guards.gallery import destructive_commands
from support.tables import table


@table(
    ("text", "places"),
    [
        ("cd / && rm x", ("/",)),
        ("cd a && cd b && rm x", ("a/b",)),
        ("cd a; rm x", ("", "a")),
        ("cd a || exit 1; rm x", ("a",)),
        ("cd a || true; rm x", ("a", "")),
        ("! cd a && rm x", ("", "a")),
        ("(cd a); rm x", ("",)),
        ("cd a | cat; rm x", ("",)),
        ("x=$(cd a); rm x", ("",)),
        ("bash -c 'cd a'; rm x", ("",)),
        ("eval 'cd a' && rm x", ("a",)),
        ("env -C a rm x", ("a",)),
        ("env -iC a rm x", ("a",)),
        ("env rm x -C a", ("",)),
        ("sudo --chdir=/a rm x", ("/a",)),
        ("cd && rm x", ("~",)),
        ("cd $X && rm x", (None,)),
        ("cd - && rm x", (None,)),
        ("cd a* && rm x", (None,)),
        ("popd && rm x", (None,)),
        ("f() { cd a; }; f; rm x", ("", None, "a")),
        ("f() { rm x; }; cd / && f", ("", None)),
        ("for i in 1 2; do cd ..; done; rm x", ("", "..", None, "../..")),
        ("for i in 1 2; do rm x; cd ..; done", ("", "..", None)),
        ("cd a & rm x", ("",)),
        ("if cd a; then rm x; fi", ("", "a")),
    ],
)
def test_a_command_runs_where_cd_has_led(text: str, places: tuple[str | None, ...]) -> None:
    (removal,) = [one for one in commands(text) if one.program == "rm"]

    assert removal.places == places


@table(
    ("text", "written"),
    [
        ("cat <<E > f\nx\nE", ["f"]),
        ("cd a && echo x >> f", ["f"]),
        ("{ cd a; ls; } > f", ["f"]),
        ("find a b -name x -delete", ["a", "b"]),
        ("curl -of https://x.example", ["f"]),
        ("apply_patch <<'E'\n*** Add File: f\n+x\n*** Move to: g\nE", ["f", "g"]),
        ("sed -i s/a/b/ f", ["f"]),
        ("sed s/a/b/ f 2>&1", []),
        ("sed -i -e s/a/b/ --expression=s/c/d/ f g", ["f", "g"]),
        ("chmod -x f g", ["f", "g"]),
        ("chmod u+x f g", ["f", "g"]),
        ("curl -sSLo f https://x.example", ["f"]),
        ("tar -xzC d -f f", ["d", "f"]),
    ],
)
def test_what_a_text_writes_is_named(text: str, written: list[str]) -> None:
    assert [word.text for one in commands(text) for word in paths_written(one)] == written


@table(
    ("text", "words"),
    [
        ("p > a -b c", ["-b", "c"]),
        ("p x 2>/dev/null -b >>d c", ["x", "-b", "c"]),
        ("p >'a b'\\ c d", ["d"]),
        ("p <<<a -b c", ["-b", "c"]),
        ("p <<E -b c\nx\nE", ["-b", "c"]),
        ("p <<E > f -b c\nx\nE", ["-b", "c"]),
        ("a | p > f -b c", ["-b", "c"]),
        ("a && p > f -b c", ["-b", "c"]),
        ("x=1 <<E p -b c\nE", ["-b", "c"]),
        ("a <<E | p > f -b c\nE", ["-b", "c"]),
    ],
)
def test_words_behind_a_redirection_are_those_of_the_command(text: str, words: list[str]) -> None:
    (found,) = [one for one in commands(text) if one.program == "p"]

    assert [word.text for word in found.arguments] == words


@table(
    ("text", "words"),
    [
        ("cat <<'END'\n`a` \\b\n\\c\nEND", [[]]),
        ("cat <<END\n\\`a\\`\nEND", [[]]),
        ('commit -m "a\n\\b"', [["-m", "a\n\\b"]]),
        ("commit -m 'a\n\\b' \\\n  -q", [["-m", "a\n\\b", "-q"]]),
        ("p 2>&- x", [["x"]]),
        ("PS1='(a) $ '", []),
    ],
)
def test_what_only_looks_like_a_command_is_none(text: str, words: list[list[str]]) -> None:
    assert [[word.text for word in one.arguments] for one in commands(text)] == words


@table(
    ("text", "said"),
    [
        ("cat <<E\n\\a\\$b\nE", "\\a$b\n"),
        ("cat <<'E'\n\\a\\$b\nE", "\\a\\$b\n"),
        ("cat <<E\n\n\\a\nb\nE", "\n\\a\nb\n"),
        ("cat <<E\na\nb\\`c\nE", "a\nb`c\n"),
        ("cat <<-E\n\ta\n\t\tb\n\tE", "a\nb\n"),
    ],
)
def test_a_here_document_says_what_the_program_reads(text: str, said: str) -> None:
    (found,) = commands(text)

    assert [(one.operator, one.target.text) for one in found.redirects] == [("<<", said)]


def test_a_folder_that_only_the_shell_knows_is_unknown() -> None:
    (removal, show) = commands("rm -r ~+/x ~-/y ~2 ~/z a~+ '~+'; ls ~+")

    assert [word.is_known for word in removal.arguments] == [True, False, False, False, True, True, True]
    assert not show.is_known


def test_hosts_and_packages_are_named() -> None:
    (git, pip) = commands("git clone git@x.example:a/b && pip install -r r.txt evil==1")

    assert list(hosts_reached(git)) == ["x.example"]
    assert [word.text for word in packages_installed(pip) or ()] == ["evil==1"]
    assert packages_installed(git) is None


@table(
    ("text", "packages"),
    [
        ("dotnet add src/App.csproj package Evil", ["Evil"]),
        ("dotnet add src/App.csproj reference src/B.csproj", None),
        ("nix profile add nixpkgs#evil", ["nixpkgs#evil"]),
        ("nix shell .#dev -c make", []),
        ("gh ext install evil/x", ["evil/x"]),
        ("ansible-galaxy collection install -r requirements.yml -p roles", []),
    ],
)
def test_packages_are_named_where_each_program_has_them(text: str, packages: list[str] | None) -> None:
    (found,) = commands(text)

    named = packages_installed(found)
    assert (None if named is None else [word.text for word in named]) == packages


@table(
    ("text", "hosts"),
    [
        ("docker image pull x.example/a", ["x.example"]),
        ("docker pull docker.io/library/alpine", []),
        ("kcat -b localhost,x.example:9092 -L", ["localhost", "x.example"]),
    ],
)
def test_hosts_are_named_where_each_program_has_them(text: str, hosts: list[str]) -> None:
    (found,) = commands(text)

    assert list(hosts_reached(found)) == hosts


@table(
    ("text", "written"),
    [
        ("tar -f x.tar -x .git/hooks/a", True),
        ("tar --file=x.tar --extract .git/hooks/a", True),
        ("tar -c -f x.tar .git/hooks/a", False),
    ],
)
def test_members_that_tar_takes_out_are_written(text: str, written: bool) -> None:
    (found,) = commands(text)

    assert (".git/hooks/a" in [word.text for word in paths_written(found)]) is written


@pytest.mark.parametrize(
    "text",
    [
        "rm x{\\ # -rf /",
        "echo 'open",
        "ls \0",
        "( " * 400 + "ls" + " )" * 400,
        "cat <<E\na \\\nE",
        "bash -c " * 10 + "ls",
        ";".join(["ls"] * 3000),
        "a" * 1_100_000,
        "echo ${x#`ls`}",
        "( ls ) > f -x",
        "cat <<E\nit is `open\nE",
        "bash <<< '(( x = 0 ' $(y) ))",
        "cat <<E\nE \n'\nE\nrm -rf / #'",
        "cat <<E\na \\\nE\n'\nE\nrm -rf / #'",
        "echo $'\\q'",
        "echo a \\\r\nrm -rf /",
    ],
    ids=range(16),
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    if text.startswith("bash"):
        for _ in range(10):
            text = f"eval {text!r}"
    with pytest.raises(UnreadableCommandError):
        commands(text)


@pytest.mark.parametrize("text", ["base64 -d f | sh", "sh < f", "bash -s < f", "at now < f", ". /dev/stdin < f"])
def test_a_shell_that_reads_what_nobody_knows_is_a_program_that_nobody_knows(text: str) -> None:
    assert None in [one.program for one in commands(text)]


@pytest.mark.parametrize("text", ["find ~ -exec RM -rf {} +", "python -c 'import os; os.system(\"RM -rf /\")'"])
def test_a_removal_in_capitals_is_one_behind_find_and_in_code(text: str) -> None:
    assert verdict(destructive_commands.destructive_commands, text) in ("deny", "ask")

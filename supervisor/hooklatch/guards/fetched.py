"""Code of the network that the same text runs: through pipes, files, archives and clones.  Knows commands, no policy.

Files and folders are told apart by their names without what is above them, so that no spelling of a path hides one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from hooklatch.guards.interpreters import reads_data, strip_version
from hooklatch.guards.targets import paths_written
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.reading.programs import AWKS, SHELLS
from hooklatch.shelltext.words import GLOB

__all__ = ["FETCHING", "running_fetched"]

FETCHING: Final = frozenset({
    "curl", "wget", "wget2", "http", "https", "httpie", "xh", "curlie", "aria2c", "axel", "nc", "ncat", "netcat",
    "socat", "fetch", "lynx", "w3m", "ftp", "tftp", "lftp", "sftp", "youtube-dl", "gdown", "telnet", "openssl",
})  # fmt: skip
# What these run reads what the network sends.
CONNECTING: Final = frozenset({"nc", "ncat", "netcat", "socat"})
WITH_VERB: Final = {"gh": ("download", "clone", "api"), "aws": ("cp", "sync", "get-object"), "gsutil": ("cp", "cat"),
                    "gcloud": ("cp", "cat"), "rclone": ("copy", "cat"), "openssl": ("s_client",), "glab": ("clone",),
                    "svn": ("checkout", "co", "export", "cat"), "hg": ("clone",), "jj": ("clone",),
                    "git": ("clone",), "ipfs": ("get", "cat"), "mc": ("cp", "cat")}  # fmt: skip
CLONING: Final = frozenset({"git", "hg", "svn", "jj", "gh", "glab", "degit", "tiged"})
UNPACKING: Final = frozenset({
    "tar", "bsdtar", "gtar", "unzip", "7z", "7za", "7zr", "unrar", "cpio", "unar", "ar", "jar", "busybox", "patool",
    "atool", "aunpack", "dtrx", "gunzip", "unxz", "bunzip2", "gzip", "xz", "zstd", "bzip2", "uncompress",
})  # fmt: skip
COPYING: Final = frozenset({"cp", "mv", "ln", "install", "rsync", "scp"})
INTERPRETERS: Final = SHELLS | {
    "source", ".", "python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit",
    "julia", "Rscript", "tclsh", "expect", "tsx", "ts-node", "java", "groovy", "scala", "kotlin", "racket", "guile",
    "elixir", "erl", "escript", "swift", "osascript", "pwsh", "powershell", "nu", "xonsh", "wish", "awk", "gawk",
    "mawk", "nawk", "crystal", "nix-shell", "nim", "janet", "raku", "R",
}  # fmt: skip
# Programs that run what stands in a file or text which this option names, or in any file that they are given.
BY_OPTION: Final = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "gmake", "make", "psql", "sed"), ("-f", "--file", "--makefile")),
    "gdb": ("-x", "--command"), "vim": ("-S", "-s"), "vi": ("-S", "-s"), "nvim": ("-S", "-s", "-l"),
    "emacs": ("-l", "--load"), "at": ("-f",), "jq": ("-f", "--from-file"), "ansible-playbook": ("-i",),
    "docker": ("-f", "--file"), "m4": ("-F",), "just": ("-f", "--justfile"), "task": ("-t", "--taskfile"),
    "rake": ("-f", "--rakefile"), "cmake": ("-P",),
}  # fmt: skip
BY_FILE: Final = frozenset({
    "crontab", "dpkg", "rpm", "installer", "snap", "flatpak", "ed", "ex", "batch", "at", "insmod", "ansible-playbook",
    "msiexec", "ld.so", "wine", "dotnet", "systemd-run", "m4", "tclsh", "expect", "gem", "pip", "npm", "apt", "apt-get",
    "dnf", "yum", "apk", "pacman",
})  # fmt: skip
BUILDING: Final = frozenset({
    "make", "gmake", "cmake", "ninja", "meson", "rake", "just", "task", "mvn", "gradle", "ant", "scons", "bazel",
    "tox", "nox",
})  # fmt: skip
# Programs that run what stands in files of these names, where they are started.
BY_NAME: Final = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")), "npm": ("package.json",),
    "pnpm": ("package.json",), "yarn": ("package.json",), "pip": ("setup.py", "pyproject.toml"),
    "rake": ("Rakefile",), "just": ("justfile", "Justfile"), "task": ("Taskfile.yml",), "cargo": ("build.rs",),
    "docker": ("Dockerfile", "docker-compose.yml", "compose.yml"), "cmake": ("CMakeLists.txt",),
    "pytest": ("conftest.py",), "vagrant": ("Vagrantfile",), "git": ("pre-commit", "pre-push", "post-checkout"),
}  # fmt: skip
# Run what they read from their input: always, or if told to by "-".
READING_INPUT: Final = frozenset({
    "ed", "ex", "at", "batch", "parallel", "psql", "mysql", "mariadb", "sqlite3", "bc", "ftp",
})  # fmt: skip
TELLING: Final = ("-c", "--command", "-e", "--execute", "-f", "--file")  # by which a database is told its statements
INPUT: Final = re.compile(r"-|/+dev/+(?:stdin|fd/+0)|/proc/\S*/fd/0")
NAME: Final = re.compile(r"[\w.+@~$%,=-]+")
CODE: Final = re.compile(r"-\w*[cerpm]|-pe|--eval|--print|-E")  # behind which code or a module stands, and no file
FLAGS: Final = re.compile(r"-[abdefghiklnpqstuvxwBEIPSU]+|--?(?:no)?\w+=.*|--norc|--posix|--login|--no-warnings")
FAR: Final = re.compile(r"[\w.-]+@?[\w.-]*:|[a-z0-9]+://")

Found = tuple[Command, str, bool]


class Trail:
    """The files and folders of a text that came from the network."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()
        self.is_unpacked_here = False

    def note(self, command: Command) -> None:
        """Note what a command brings, carries on, or unpacks."""
        name = command.program or ""
        is_fetching, is_carrying = is_fetching_command(command), self.is_fed(command) or self.is_read(command)
        if name in CLONING and is_fetching:
            named = [
                word.text for word in command.operands if word.text not in ("clone", "checkout", "co", "repo", "export")
            ]
            self.folders |= {last_part(source).removesuffix(".git") for source in named[-2:]} - {""}
            return
        written = {last_part(word.text) for word in paths_written(command)} - {"", ".", "null"}
        if is_fetching:
            self.files |= written | ({last_part(word.text) for word in command.operands} - {"", "."})
        elif is_carrying:
            self.files |= written
            if name in COPYING and command.operands:
                self.files |= {last_part(word.text) for word in command.operands[:-1] if self.is_below(word.text)}
                to = last_part(command.operands[-1].text)
                (self.folders if self.is_from_folder(command) else self.files).add(to)
            if name in UNPACKING:
                into = [last_part(word.text) for word in command.values_of("-C", "--directory", "-d")]
                self.folders |= set(into) - {"", "."}
                self.is_unpacked_here = self.is_unpacked_here or not into or "." in into
                self.files |= {last_part(word.text).rpartition(".")[0] for word in command.operands if "." in word.text}

    def is_fed(self, command: Command) -> bool:
        """Return whether what a command reads in a pipe has come from the network, or from a file that has."""
        given = command.given.text if command.given is not None and command.fed_by else ""
        return bool(
            CONNECTING.intersection(command.within)
            or FETCHING.intersection((command.fed_by or "", *command.sources))
            or (self.files and not self.files.isdisjoint(NAME.findall(given)))
            or (not WITH_VERB.keys().isdisjoint(command.sources) and any(map(is_fetching_text, given.splitlines())))
        )

    def is_read(self, command: Command) -> bool:
        """Return whether one of the files that a command is given has come from the network."""
        if not self.files and not self.folders:
            return False
        texts = [word.text for word in command.arguments]
        texts += [redirect.target.text for redirect in command.redirects if redirect.operator.startswith("<")]
        return any(map(self.is_of, (part for text in texts for part in (text, text.rpartition("=")[2], text[2:]))))

    def is_from_folder(self, command: Command) -> bool:
        return not {last_part(word.text) for word in command.operands[:-1]}.isdisjoint(self.folders)

    def is_of(self, path: str) -> bool:
        name = last_part(path)
        is_named = name in self.files or (GLOB.search(name) and any(fnmatchcase(file, name) for file in self.files))
        return bool(is_named) or self.is_below(path)

    def is_below(self, path: str) -> bool:
        """Return whether a path leads into a folder that has come from the network."""
        return not self.folders.isdisjoint(path.rstrip("/").split("/")) or (
            self.is_unpacked_here and "/" in path and not path.startswith(("/", "~"))
        )

    def is_in_folder(self, command: Command) -> bool:
        """Return whether a command may run in a folder that has come from the network."""
        return any(
            not self.folders.isdisjoint(place.split("/")) or (self.is_unpacked_here and place not in ("", "."))
            for place in command.places
            if place is not None and not (self.is_unpacked_here and not self.folders and place.startswith(("/", "~")))
        )


def running_fetched(found: Sequence[Command]) -> Iterator[Found]:
    """Yield each command that runs what the network has sent to the same text, how it does, and whether at once."""
    trail = Trail()
    for command in found:
        name = strip_version(command.program or "")
        path = full_program_path(command)
        if (trail.is_fed(command) and is_program_read(command, name)) or (
            name in INTERPRETERS and is_substituted(command)
        ):
            yield command, "runs what the network sends", True
        elif trail.files or trail.folders or trail.is_unpacked_here:
            is_here = trail.is_in_folder(command)
            operands = list(list_program_files(command, name))
            operands += [word.text for word in command.values_of(*BY_OPTION.get(name, ()))]
            operands += [word.text for word in command.values_of("-C", "--directory")] if name in BUILDING else []
            if last_part(path) in trail.files or any(
                trail.is_of(operand) and not trail.is_below(operand) for operand in operands
            ):
                yield command, "runs what the network has sent", name not in BY_FILE
            elif (
                (path and not path.startswith(("/", "~")) and "/" in path and (is_here or trail.is_below(path)))
                or (path and trail.is_below(path) and "/" in path)
                or any(trail.is_below(operand) for operand in operands)
                or (is_here and (name in BUILDING or (operands and name in INTERPRETERS)))
            ):
                yield command, "runs what the network has sent", False
        trail.note(command)


def is_substituted(command: Command) -> bool:
    """Return whether its words hold the output of a program that fetches: `bash <(curl …)`, `sh -c "$(curl …)"`."""
    return any(not word.is_known and any(program in word.text for program in FETCHING) for word in command.arguments)


def is_program_read(command: Command, name: str) -> bool:
    """Return whether a command runs what it reads from its input."""
    if any(INPUT.fullmatch(word.text) for word in command.values_of(*BY_OPTION.get(name, ()))):
        return True
    if name == "crontab":
        return "-l" not in [word.text for word in command.arguments]
    if name in AWKS:
        return False
    if name in INTERPRETERS:
        return name in SHELLS or not reads_data(command)
    is_told = command.operands if name == "parallel" else command.has_option(*TELLING) or len(command.operands) > 1
    return name in READING_INPUT and (name in ("at", "batch") or not is_told)


def list_program_files(command: Command, name: str) -> Iterator[str]:
    """Yield the files that may be the program that a command runs: all that may stand in its place."""
    yield from BY_NAME.get(name, ())
    if name in BY_FILE:
        yield from (word.text for word in command.operands)
    if name not in INTERPRETERS or name in AWKS:
        return
    if name in SHELLS or not reads_data(command):
        yield from (redirect.target.text for redirect in command.redirects if redirect.operator == "<")
    is_value = False
    for at, word in enumerate(command.arguments):
        if CODE.fullmatch(word.text) and name not in SHELLS:
            if not reads_data(command):
                yield from (file for other in command.arguments for file in NAME.findall(other.text))
            if word.text.endswith("m"):
                yield from (
                    f"{last_part(other.text.replace('.', '/'))}.py" for other in command.arguments[at + 1 : at + 2]
                )
            return
        if word.text.startswith("-"):
            is_value = FLAGS.fullmatch(word.text) is None
            if "=" in word.text:
                yield word.text.partition("=")[2]
        else:
            yield word.text
            if not is_value and word.text != "run":
                return
            is_value = False


def full_program_path(command: Command) -> str:
    """Return a program as it is written, with its folder."""
    name = command.program
    if not name or name not in command.text:
        return ""
    return next((word for word in command.text.split() if last_part(word.strip("'\"")) == name), "").strip("'\"")


def is_fetching_command(command: Command) -> bool:
    name = command.program or ""
    if name in WITH_VERB:
        return any(word.text in WITH_VERB[name] for word in command.operands[:3])
    if name in ("scp", "rsync"):
        return any(FAR.match(word.text) for word in command.operands[:-1])
    return name in FETCHING or name in ("degit", "tiged")


def is_fetching_text(line: str) -> bool:
    words = line.split()
    return bool(words) and words[0] in WITH_VERB and any(word in WITH_VERB[words[0]] for word in words[1:4])


def last_part(path: str) -> str:
    return os.path.basename(path.rstrip("/")).rpartition(":")[2]

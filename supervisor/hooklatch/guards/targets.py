"""What commands write to, and the parts of a command of git, by tables of programs.  Knows commands, no policy."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from hooklatch.guards.command import Command
from hooklatch.guards.git.commands import list_files_written
from hooklatch.guards.words import Word

__all__ = ["paths_written"]

# Programs that write to every operand, and those that write to the last one.
WRITES_ALL: Final = frozenset({
    "rm", "rmdir", "unlink", "shred", "tee", "touch", "truncate", "chmod", "chown", "chgrp", "mkdir", "srm",
    "patch", "sponge", "gzip", "bzip2", "xz", "zstd", "gunzip", "bunzip2", "unxz", "dos2unix", "unix2dos",
    "fallocate", "mkfifo", "mknod", "setfacl", "chattr", "ed", "ex", "trash",
})  # fmt: skip
WRITES_LAST: Final = frozenset({"cp", "install", "rsync", "ln", "scp"})
IN_PLACE: Final = {
    "sed": ("-i", "--in-place"), "perl": ("-i",), "ruby": ("-i",), "gawk": ("-i",), "awk": ("-i",), "sort": ("-o",),
    "yq": ("-i", "--inplace"),
}  # fmt: skip
# Programs whose first operand is no file unless one of these options says it; chmod's mode may look like an option.
SCRIPT_FIRST: Final = {
    "chmod": ("--reference",), "chown": ("--reference",), "chgrp": ("--reference",),
    "sed": ("-e", "--expression", "-f", "--file"), "perl": ("-e", "-E"), "ruby": ("-e",),
}  # fmt: skip
FOLDERS: Final = frozenset({".", "~", "$HOME", "${HOME}", "$PWD"})
CLUSTER: Final = re.compile(r"-[A-Za-z0-9]+")
VALUED: Final = {  # options whose value is a file that is written
    "curl": ("-o", "--output", "--dump-header", "-D", "-c", "--cookie-jar", "--output-dir"),
    "aria2c": ("-o", "--out", "-d", "--dir"),
    "gpg": ("-o", "--output"),
    "ssh-keygen": ("-f",),
    "iconv": ("-o", "--output"),
    **dict.fromkeys(("gcc", "cc", "clang", "g++", "rustc", "strace", "time"), ("-o",)),
    "wget": ("-O", "--output-document", "-o", "--output-file", "-P", "--directory-prefix"),
    "cp": ("-t", "--target-directory"),
    "ln": ("-t", "--target-directory"),
    "mv": ("-t", "--target-directory"),
    "install": ("-t", "--target-directory"),
    "tar": ("-f", "--file", "-C", "--directory"),
    "bsdtar": ("-f", "--file", "-C", "--directory"),
    "cpio": ("-D", "--directory"),
    "7z": ("-o",),
    "unzip": ("-d",),
    "sort": ("-o", "--output"),
    "git": ("--git-dir", "--work-tree"),
}
PATCHED: Final = re.compile(r"(?im)^[^\S\n]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[^\S\n]*(\S.*?)\s*$")


def paths_written(command: Command) -> Iterator[Word]:
    """Yield the files and folders that a command writes, creates, changes or removes, as far as its words tell."""
    name = command.program or ""
    for redirect in command.redirects:
        if redirect.operator.startswith((">", "&>", "<>")) and not redirect.target.text.isdigit():
            yield redirect.target
    if name in WRITES_ALL or (name in IN_PLACE and command.has_option(*IN_PLACE[name])):
        operands = command.operands
        yield from (
            operands[1:]
            if name in SCRIPT_FIRST and len(operands) > 1 and not is_told_elsewhere(name, command)
            else operands
        )
    elif name == "mv" or name in WRITES_LAST:
        yield from command.operands if name == "mv" else command.operands[-1:]
        yield from list_copies_into(command)
    elif name == "find" and "-delete" in [word.text for word in command.arguments]:
        yield from itertools.takewhile(lambda word: not word.text.startswith(("-", "(", "!")), command.arguments)
    elif name == "find":
        writing = ("-fprint", "-fprint0", "-fprintf", "-fls")
        yield from (word for last, word in itertools.pairwise(command.arguments) if last.text in writing)
    elif name == "openssl":
        yield from (word for last, word in itertools.pairwise(command.arguments) if last.text == "-out")
    elif name in ("uniq", "xxd") and len(command.operands) > 1:
        yield command.operands[-1]
    elif (name == "curl" and command.has_option("-O", "--remote-name")) or (
        name == "wget" and not command.has_option("-O", "--output-document", "-i")
    ):
        yield from (
            Word(word.text.rpartition("/")[2]) for word in command.operands if "/" in word.text and word.is_known
        )
    elif name == "dd":
        yield from (Word(word.text[3:], word.is_known) for word in command.arguments if word.text.startswith("of="))
    elif name in ("apply_patch", "applypatch"):
        texts = [*(word.text for word in command.arguments), *(one.target.text for one in command.redirects)]
        yield from (Word(path) for text in texts for path in PATCHED.findall(text))
    elif name == "git":
        yield from list_files_written(command)
    if name != "ssh-keygen" or not command.has_option("-l", "-y", "-F"):  # which show something of a file
        yield from command.values_of(*VALUED.get(name, ()))


def list_copies_into(command: Command) -> Iterator[Word]:
    """Yield the files that a copy makes in a folder, where its words show that it is one: cp a b/, cp a b c, mv a ~."""
    told = list(command.values_of("-t", "--target-directory"))
    *sources, target = [*command.operands, *told[-1:]] or [Word("")]
    if told or len(sources) > 1 or target.text.endswith(("/", "/.", "..")) or target.text in FOLDERS:
        for source in sources:
            name = source.text.rstrip("/").rpartition("/")[2]
            if source.is_known and name not in ("", ".", ".."):
                yield Word(f"{target.text.rstrip('/')}/{name}", target.is_known)


def is_told_elsewhere(name: str, command: Command) -> bool:
    """Return whether an option says what the first operand would: the script or the mode; `chmod -x f` is one."""
    if name == "chmod" and any(re.match(r"-[rwxXst]", word.text) for word in command.arguments):
        return True
    return any(True for _ in command.values_of(*SCRIPT_FIRST[name]))

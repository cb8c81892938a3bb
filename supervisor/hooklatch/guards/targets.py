"""Files that commands write to: their operands, the values of options, by tables, and by ways of their own.

Knows commands, no policy.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hooklatch.guards.git_commands import list_files_written
from hooklatch.guards.packages import find_module
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.reading.sed import SEDS, list_sed_files
from hooklatch.shelltext.words import Word
from hooklatch_worker.author.tools import list_patched_files

__all__ = ["BEHIND", "MARKED", "READING", "VALUED", "paths_written"]

# Programs that write to every operand, to the last one, to the first one, and to those behind the first one.
WRITES_ALL: Final = frozenset({
    "rm", "rmdir", "unlink", "shred", "tee", "touch", "truncate", "chmod", "chown", "chgrp", "mkdir", "srm",
    "patch", "sponge", "gzip", "bzip2", "xz", "zstd", "gunzip", "bunzip2", "unxz", "dos2unix", "unix2dos",
    "fallocate", "mkfifo", "mknod", "setfacl", "chattr", "ed", "ex", "trash",
})  # fmt: skip
WRITES_LAST: Final = frozenset({
    "cp", "install", "rsync", "ln", "scp", "ffmpeg", "magick", "convert", "sox", "pdfunite", "asciinema", "mount",
})  # fmt: skip
WRITES_FIRST: Final = frozenset({"script", "zip"})
WRITES_SECOND: Final = frozenset({"split", "uniq", "xxd", "pdftotext", "wkhtmltopdf", "unzip"})
IN_PLACE: Final = {
    "sed": ("-i", "--in-place"), "perl": ("-i",), "ruby": ("-i",), "gawk": ("-i",), "awk": ("-i",), "sort": ("-o",),
    "yq": ("-i", "--inplace"), "prettier": ("-w", "--write"), "gofmt": ("-w",), "shfmt": ("-w", "--write"),
    "clang-format": ("-i",), "autopep8": ("-i", "--in-place"), "eslint": ("--fix",), "sops": ("-i", "--in-place"),
}  # fmt: skip
# Programs whose first operand is not a file unless one of these options says it; chmod's mode may look like an option.
SCRIPT_FIRST: Final = {
    "chmod": ("--reference",), "chown": ("--reference",), "chgrp": ("--reference",),
    "sed": ("-e", "--expression", "-f", "--file"), "perl": ("-e", "-E"), "ruby": ("-e",), "yq": ("--from-file",),
}  # fmt: skip
# Options whose value is a file that is written.
VALUED: Final[Mapping[str, tuple[str, ...]]] = {
    "curl": ("-o", "--output", "--dump-header", "-D", "-c", "--cookie-jar", "--output-dir", "--trace",
             "--trace-ascii", "--stderr", "--etag-save", "--libcurl"),
    "aria2c": ("-o", "--out", "-d", "--dir"),
    **dict.fromkeys(("gpg", "age"), ("-o", "--output")),
    "ssh-keygen": ("-f",),
    "iconv": ("-o", "--output"),
    **dict.fromkeys(("gcc", "cc", "clang", "g++", "c++", "clang++", "rustc", "ld", "as", "ghc", "swiftc", "nim",
                     "strace", "ltrace", "time", "shuf", "strip", "objcopy"), ("-o", "--output")),
    **dict.fromkeys(("pandoc", "dot", "protoc", "esbuild", "tsc", "sass", "xmllint", "xsltproc", "yt-dlp", "youtube-dl",
                     "terser", "babel", "bison", "flex", "rsvg-convert", "kustomize", "tree", "ruff", "eslint",
                     "asciidoctor", "mkisofs", "pip-compile", "http", "xh", "perf"),
                    ("-o", "--output", "--outfile", "--outFile", "--out-file", "--out", "--output-file")),
    **dict.fromkeys(("psql", "pgcli"), ("-o", "--output", "-L", "--log-file")),
    **dict.fromkeys(("pg_dump", "pg_dumpall", "pg_restore"), ("-f", "--file")),
    **dict.fromkeys(("mysqldump", "mariadb-dump"), ("-r", "--result-file", "--tab", "-T")),
    "mysql": ("--tee",),
    "wget": ("-O", "--output-document", "-o", "--output-file", "-a", "--append-output", "-P", "--directory-prefix",
             "--save-cookies"),
    **dict.fromkeys(("cp", "ln", "mv", "install"), ("-t", "--target-directory")),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), ("-f", "--file", "-C", "--directory", "--one-top-level")),
    "cpio": ("-D", "--directory", "-O", "-F", "--file"),
    **dict.fromkeys(("7z", "7za", "7zz", "7zr", "unar"), ("-o",)),
    "unzip": ("-d",),
    "sort": ("-o", "--output"),
    "git": ("--git-dir", "--work-tree"),
    "csplit": ("-f", "--prefix"),
    "tcpdump": ("-w",),
    "tshark": ("-w",),
    "valgrind": ("--log-file",),
    "script": ("-O", "--log-out", "-I", "--log-in", "-B", "--log-io", "-T", "--log-timing"),
}  # fmt: skip
# Programs that take their options as words of their own, with those whose next word is a file that is written.
MARKED: Final[Mapping[str, frozenset[str]]] = {
    "find": frozenset({"-fprint", "-fprint0", "-fprintf", "-fls"}),
    "openssl": frozenset({"-out", "-keyout", "-CAserial", "-writerand"}),
    "keytool": frozenset({"-keystore", "-file", "-destkeystore"}),
}
# With these options a program shows something of the files, and writes none.
READING: Final = {"ssh-keygen": ("-l", "-y", "-F"), "unzip": ("-l", "-p", "-t", "-v", "-Z")}
# Programs with verbs: behind which of these an option's value is a file that is written, and whether the last word is.
BEHIND: Final[Mapping[str, tuple[tuple[str, tuple[str, ...], bool], ...]]] = {
    "go": (
        ("build", ("-o",), False),
        ("test", ("-o", "-coverprofile", "-cpuprofile", "-memprofile", "-blockprofile", "-trace"), False),
    ),
    "cargo": (("rustc", ("-o",), False), ("build", ("--out-dir", "--artifact-dir"), False)),
    "deno": (("compile", ("-o", "--output"), False), ("bundle", (), True)),
    "bun": (("build", ("--outfile", "--outdir"), False),),
    "uv": (
        ("export", ("-o", "--output-file"), False), ("compile", ("-o", "--output-file"), False),
        ("build", ("-o", "--out-dir"), False), ("venv", (), True),
    ),
    "ansible-vault": tuple((verb, (), True) for verb in ("encrypt", "decrypt", "rekey", "create", "edit")),
    "poetry": (("export", ("-o", "--output"), False),),
    "npm": (("pack", ("--pack-destination",), False),),
    "helm": (("template", ("--output-dir",), False), ("package", ("-d", "--destination"), False)),
    "gh": (
        ("release download", ("-O", "--output", "-D", "--dir"), False), ("run download", ("-D", "--dir"), False),
        ("repo clone", (), True),
    ),
    "terraform": (("plan", ("-out",), False),),
    **dict.fromkeys(("docker", "podman", "nerdctl"), (
        ("cp", (), True), ("save", ("-o", "--output"), False), ("export", ("-o", "--output"), False),
        ("build", ("-o", "--output", "--iidfile", "--metadata-file"), False),
        ("run", ("--cidfile",), False),
    )),
    "docker-compose": (("cp", (), True),),
    **dict.fromkeys(("kubectl", "oc"), (("cp", (), True),)),
    "lxc": (("file pull", (), True),),
    "incus": (("file pull", (), True),),
    "vagrant": (("scp", (), True),),
    "multipass": (("transfer", (), True),),
    "adb": (("pull", (), True),),
    "aws": (("s3 cp", (), True), ("s3 sync", (), True), ("s3 mv", (), True), ("s3api get-object", (), True)),
    "gsutil": (("cp", (), True), ("rsync", (), True), ("mv", (), True)),
    "gcloud": (("storage cp", (), True), ("compute scp", (), True)),
    "rclone": (("copy", (), True), ("copyto", (), True), ("sync", (), True), ("move", (), True)),
    "mc": (("cp", (), True), ("mirror", (), True)),
}  # fmt: skip


# Programs with the verbs by which they change a file of settings, which makes them run or fetch something else.
OF_NPM: Final = re.compile(
    r"(?i)(?:config |c )?set (?:\S*(?:registry|proxy|cafile|strict-ssl)|unsafe\w*|enableStrictSsl|yarnPath|npm\w+"
    r"|script-shell|shell|node-options|editor|git|prefix|\S*config|init-module|//)|config edit"
)
OF_PIP: Final = re.compile(r"config (?:edit|set \S*(?:index-url|find-links|trusted-host|proxy|cert))")
SETTING: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn"), (OF_NPM, "~/.npmrc")),
    **dict.fromkeys(("pip", "pip3"), (OF_PIP, "~/.config/pip/pip.conf")),
}
EXTRACT: Final = frozenset({"-e", "--extract"})
EXTRACTING: Final = re.compile(r"-?[A-Za-z]*x[A-Za-z]*|--extract|--get")
FOLDERS: Final = frozenset({".", "~", "$HOME", "${HOME}", "$PWD"})
FAR: Final = re.compile(r"[\w@][\w.@/-]*:")  # what lies in a container, a bucket, or on another machine


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
    elif name in MARKED:
        yield from (word for last, word in itertools.pairwise(command.arguments) if last.text in MARKED[name])
    elif name in WRITES_FIRST:
        yield from command.operands[:1]
    elif name in WRITES_SECOND and not command.has_option(*READING.get(name, ())):
        yield from command.operands[1:]
    elif (name == "curl" and command.has_option("-O", "--remote-name")) or (
        name == "wget" and not command.has_option("-O", "--output-document", "-i")
    ):
        yield from (
            Word(word.text.rpartition("/")[2]) for word in command.operands if "/" in word.text and word.is_known
        )
    elif name == "dd":
        yield from (Word(word.text[3:], word.is_known) for word in command.arguments if word.text.startswith("of="))
    elif name in ("apply_patch", "applypatch"):
        texts = [*(word.text for word in command.arguments), *(redirect.target.text for redirect in command.redirects)]
        yield from (Word(path) for text in texts for path in list_patched_files(text))
    elif name == "git":
        yield from list_files_written(command)
    elif name in ("tar", "bsdtar", "gtar") and any(
        EXTRACTING.fullmatch(word.text)
        for at, word in enumerate(command.arguments)
        if at == 0 or word.text.startswith("-")
    ):
        yield from command.operands  # the members that it takes out
        for word in command.values_of("--transform", "--xform", *(("-s",) if name == "bsdtar" else ())):
            begin = re.sub(r"\Aflags=\w*;|\As(?!\w)", "", word.text)  # s,^,/etc/,
            named = begin[1:].split(begin[:1])[1:2] if begin else []
            yield from (Word(text, word.is_known and not set("\\&;") & set(text)) for text in named)
    elif name.startswith(("python", "pypy")) and EXTRACT & {word.text for word in command.arguments}:
        at = find_module(command.arguments, "tarfile") or find_module(command.arguments, "zipfile")
        yield from command.arguments[at:][-1:] if at else ()
    elif name in SETTING and SETTING[name][0].match(" ".join(word.text for word in command.operands)):
        yield Word(SETTING[name][1])
    if name in SEDS:
        yield from list_sed_files(command.arguments, command.given)
    if not command.has_option(*READING.get(name, ())):
        yield from command.values_of(*VALUED.get(name, ()))
    for verbs, options, is_last in BEHIND.get(name, ()):
        if (rest := behind(verbs.split(), command.operands)) is not None:
            yield from command.values_of(*options)
            yield from (word for word in rest[-1:] if is_last and FAR.match(word.text) is None)


def behind(verbs: Sequence[str], operands: Sequence[Word]) -> Sequence[Word] | None:
    """Return the operands behind some verbs; None if these are not among them."""
    for verb in verbs:
        at = next((at for at, word in enumerate(operands) if word.text == verb), None)
        if at is None:
            return None
        operands = operands[at + 1 :]
    return operands


def list_copies_into(command: Command) -> Iterator[Word]:
    """Yield the files that a copy makes in a folder, where its words show that it is one: cp a b/, cp a b c, mv a ~."""
    folders = list(command.values_of("-t", "--target-directory"))
    *sources, target = [*command.operands, *folders[-1:]] or [Word("")]
    if folders or len(sources) > 1 or target.text.endswith(("/", "/.", "..")) or target.text in FOLDERS:
        for source in sources:
            name = source.text.rstrip("/").rpartition("/")[2]
            if source.is_known and name not in ("", ".", ".."):
                yield Word(f"{target.text.rstrip('/')}/{name}", target.is_known)


def is_told_elsewhere(name: str, command: Command) -> bool:
    """Return whether an option says what the first operand would: the script or the mode; `chmod -x f` is one."""
    if name == "chmod" and any(re.match(r"-[rwxXst]", word.text) for word in command.arguments):
        return True
    return any(True for _ in command.values_of(*SCRIPT_FIRST[name]))

"""The words of a program that are files it writes: its operands, the values of its options, by tables.

Knows names of programs and options; reads no words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = [
    "BEHIND", "IN_PLACE", "MARKED", "READING", "SCRIPT_FIRST", "VALUED", "WRITES_ALL", "WRITES_FIRST", "WRITES_LAST",
    "WRITES_SECOND",
]  # fmt: skip

# Programs that write to every operand, to the last one, to the first one, and to those behind the first one.
WRITES_ALL: Final = frozenset({
    "rm", "rmdir", "unlink", "shred", "tee", "touch", "truncate", "chmod", "chown", "chgrp", "mkdir", "srm",
    "patch", "sponge", "gzip", "bzip2", "xz", "zstd", "gunzip", "bunzip2", "unxz", "dos2unix", "unix2dos",
    "fallocate", "mkfifo", "mknod", "setfacl", "chattr", "ed", "ex", "trash",
})  # fmt: skip
WRITES_LAST: Final = frozenset({
    "cp", "install", "rsync", "ln", "scp", "ffmpeg", "magick", "convert", "sox", "pdfunite", "asciinema",
})  # fmt: skip
WRITES_FIRST: Final = frozenset({"script", "zip"})
WRITES_SECOND: Final = frozenset({"split", "uniq", "xxd", "pdftotext", "wkhtmltopdf"})
IN_PLACE: Final = {
    "sed": ("-i", "--in-place"), "perl": ("-i",), "ruby": ("-i",), "gawk": ("-i",), "awk": ("-i",), "sort": ("-o",),
    "yq": ("-i", "--inplace"), "prettier": ("-w", "--write"), "gofmt": ("-w",), "shfmt": ("-w", "--write"),
    "clang-format": ("-i",), "autopep8": ("-i", "--in-place"), "eslint": ("--fix",),
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
    "gpg": ("-o", "--output"),
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
    **dict.fromkeys(("tar", "bsdtar", "gtar"), ("-f", "--file", "-C", "--directory")),
    "cpio": ("-D", "--directory", "-O", "-F", "--file"),
    "7z": ("-o",),
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
READING: Final = {"ssh-keygen": ("-l", "-y", "-F")}
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

"""What commands write to, fetch from and install, by tables of programs' own ways.  Knows commands, no policy."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from hooklatch.guards.command import Command
from hooklatch.guards.reading.inner import git_verb
from hooklatch.guards.reading.options import after_options, option_values, takes_next
from hooklatch.guards.reading.programs import JOINED
from hooklatch.guards.shell.commands import DECLARING
from hooklatch.guards.words import Word

__all__ = ["git_parts", "hostname_of", "hosts_reached", "packages_installed", "paths_written"]

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
NETWORK: Final = frozenset({
    "curl", "wget", "wget2", "http", "https", "httpie", "xh", "xhs", "curlie", "axel", "aria2c", "fetch", "lynx", "w3m",
    "links",
})  # fmt: skip
REMOTE: Final = frozenset({
    "ssh", "scp", "sftp", "rsync", "telnet", "nc", "ncat", "socat", "ftp", "ping", "dig", "nslookup", "host", "drill",
    "whois", "traceroute", "tracepath", "mtr", "nmap", "masscan", "iperf3", "mosh", "autossh", "ssh-copy-id",
    "grpcurl", "sshfs", "tftp",
})  # fmt: skip
# Options of programs that fetch whose value is no host: a file, a header, what is sent.
VALUES_OF_CURL: Final = """
    -A -b -c -C -d -D -e -E -F -H -m -o -P -Q -r -t -T -u -U -w -X -y -Y -z --user-agent --cookie --cookie-jar
    --continue-at --data --data-raw --data-binary --data-urlencode --data-ascii --json --dump-header --referer
    --cert --key --cacert --capath --form --form-string --header --max-time --connect-timeout --output
    --output-dir --range --upload-file --user --proxy-user --write-out --request --retry --retry-delay
    --retry-max-time --limit-rate --stderr --trace --trace-ascii --max-redirs --max-filesize --ciphers
    --netrc-file --oauth2-bearer --variable"""
VALUES_OF_WGET: Final = """
    -O -o -a -P -U -t -T -w -Q -A -R -I -X -l --output-document --output-file --append-output
    --directory-prefix --user-agent --header --post-data --post-file --body-data --body-file --method --tries
    --timeout --wait --user --password --load-cookies --save-cookies --ca-certificate --certificate --private-key
    --level --accept"""
VALUES: Final = {"curl": frozenset(VALUES_OF_CURL.split()), "wget": frozenset(VALUES_OF_WGET.split())}
# Long options of both that take no value: behind any other one, what looks like an option may be its value.
OPTIONS_WITHOUT_VALUE: Final = """
    --silent --show-error --fail --fail-with-body --location --insecure --include --head --verbose --compressed
    --globoff --get --http1.1 --http2 --remote-name --create-dirs --progress-bar --no-progress-meter --no-buffer
    --ipv4 --ipv6 --netrc --quiet --no-verbose --no-check-certificate --continue --show-progress --recursive
    --mirror --spider --content-disposition"""
WITHOUT_VALUE: Final = frozenset(OPTIONS_WITHOUT_VALUE.split())
READ_FROM_FILE: Final = {
    "curl": ("-K", "--config"), "wget": ("-i", "--input-file"), "aria2c": ("-i", "--input-file"),
}  # fmt: skip
PROXY: Final = re.compile(r"""(?i)\b(?:https?|all|ftp|socks)_proxy=['"]?([^\s'";]+)""")
# Options of other programs whose value is the host that they reach.
HOST_OPTIONS: Final = {
    "psql": ("-h", "--host"), "pg_dump": ("-h", "--host"), "mysql": ("-h", "--host"), "mysqldump": ("-h", "--host"),
    "mariadb": ("-h", "--host"), "redis-cli": ("-h",), "mongosh": ("--host",),
    "openssl": ("-connect", "-host", "-proxy"),
}  # fmt: skip
HOST_OF_SSH: Final = re.compile(r"(?i)\s*(?:hostname|proxyjump)[\s=]+(\S+)")
URL: Final = re.compile(r"(?i)\b(?!(?:file|s3|gs):)[a-z][a-z0-9+.-]*://[^\s'\"<>]+")
PLAIN: Final = re.compile(r"[\w.:-]+")  # what a host is made of; programs read all else in different ways
LOOSE: Final = re.compile(r"(?i)(?:https?|ftps?):/*(?=[^/])")  # that programs which fetch take for a URL
DOTS: Final = str.maketrans("\u3002\uff0e\uff61", "...")  # for which programs that fetch write a full stop
VERSION: Final = re.compile(r"[\d.]+\Z")  # pip3, python3.12
OF_PROJECT: Final = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")  # what the project declares
SOCKET: Final = re.compile(r"/dev/(?:tcp|udp)/([^/\s]+)/")  # of bash
# Options of programs that fetch which have another host reached than the URL names.
DIVERTING: Final = {
    "curl": (
        "-x", "--proxy", "--preproxy", "--socks4", "--socks4a", "--socks5", "--socks5-hostname", "--connect-to",
        "--resolve", "--doh-url",
    ),
    "wget": ("-e", "--execute"),
}  # fmt: skip
# Programs that only speak of a URL, and commands of git that do reach one.
SPEAKING: Final = frozenset(
    {"echo", "printf", "grep", "egrep", "rg", "ag", "sed", "awk", "jq", "cat", "true", "test", "["}
)
CODED: Final = frozenset({"sed", "awk"})  # those of them whose words may run a program
REACHING: Final = frozenset(
    {"clone", "fetch", "pull", "push", "remote", "submodule", "ls-remote", "archive", "config", "-c"}
)
NAMING_FIRST: Final = frozenset({"ssh", "telnet", "ftp", "sftp", "nc", "ncat", "ping", "dig", "nslookup"})
SCP_LIKE: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+\.[\w.-]+|localhost|\[[0-9a-fA-F:]+\]):(?!//)")
PATCHED: Final = re.compile(r"(?im)^[^\S\n]*\*\*\* (?:(?:Add|Update|Delete) File|Move to):[^\S\n]*(\S.*?)\s*$")
COPYING: Final = frozenset({"git", "scp", "rsync"})  # to which a word without a colon is a file
COPIED: Final = re.compile(r"(?:[\w.-]+@)?([\w-][\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)(?!\d+\Z)")  # scp a host:/x
# A host without a scheme: with a user, a port, a path, a query; numbers are addresses, too.
BARE_HOST: Final = re.compile(
    r"(?s)(?:[^\s/@?#]+@)?((?:[\w-]+\.)+[^\W\d_][\w-]+|\d+(?:\.\d+){2,3}|localhost|\d{8,}|0[xX][0-9a-fA-F]{6,}|\[[0-9a-fA-F:.]+\])"
    r"\.?(?:[:/?#\\].*)?"
)

# Options behind the verb that take the next word, which is no package.
VALUED_BY_INSTALLERS: Final = {
    "pip": frozenset({
        *OF_PROJECT, "-t", "--target", "--prefix", "--root", "--timeout", "--retries", "--cache-dir", "--platform",
        "--python-version", "--progress-bar", "--log", "--only-binary", "--no-binary", "--config-settings",
    }),
    "pipenv": frozenset(OF_PROJECT),
    "npm": frozenset({"--prefix", "-C", "-w", "--workspace", "--cache", "--loglevel", "--omit", "--include"}),
    "pnpm": frozenset({"-C", "--dir", "-F", "--filter", "--loglevel"}),
    "cargo": frozenset({"--path", "--root", "--target-dir", "-F", "--features", "-j", "--jobs"}),
}  # fmt: skip
# Verbs that install what is named after them; a verb with nothing after it installs what the project declares.
INSTALLERS: Final = {
    "pip": ("install", "download", "wheel"), "pipenv": ("install",), "easy_install": ("",),
    "pipx": ("install", "run", "inject"),
    "npm": (
        "install", "i", "in", "ins", "inst", "insta", "instal", "isnt", "isnta", "isntal", "isntall", "add", "exec",
        "x", "create", "init", "innit",
    ),
    "pnpm": ("install", "i", "add", "dlx", "create"), "yarn": ("add", "dlx", "create"),
    "bun": ("add", "a", "install", "i", "x", "create"), "npx": ("",), "bunx": ("",),
    "cargo": ("install", "add", "binstall"), "cabal": ("install",), "luarocks": ("install",),
    "gem": ("install", "i"), "bundle": ("add",), "aptitude": ("install",), "zypper": ("install", "in"),
    "flatpak": ("install",), "guix": ("install",), "opam": ("install",),
    "pecl": ("install",), "cpan": ("",), "cpanm": ("",), "micromamba": ("install",), "mise": ("use", "u"),
    "go": ("install", "get"), "apt": ("install",), "apt-get": ("install",), "brew": ("install", "reinstall"),
    "dnf": ("install", "in"),
    "yum": ("install",), "apk": ("add",), "pacman": ("-S", "-Sy", "-Syu"), "conda": ("install",), "mamba": ("install",),
    "deno": ("install", "add"), "nix-env": ("-i", "-iA"), "poetry": ("add",), "pdm": ("add",), "uvx": ("",),
    "composer": ("require",), "snap": ("install",), "pnpx": ("",), "rye": ("add",), "pixi": ("add",),
    "volta": ("install",), "port": ("install",), "stack": ("install",), "yay": ("-S", "-Sy", "-Syu"),
}  # fmt: skip


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
        yield from copied_into(command)
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
        verb, rest = git_verb(command.arguments)
        folders = list(option_values(command.arguments[: -len(rest) or None], frozenset({"-C"})))
        named: Iterable[Word] = ()
        if verb == "config":
            named = values_of(command, ("--file", "-f"))
        elif verb in ("rm", "mv") and not command.has_option("--cached"):  # which leaves the file as it is
            named = msgspec.structs.replace(command, arguments=tuple(rest)).operands
        for word in named:
            parts = [*folders, word]
            yield Word(os.path.join(*(one.text for one in parts)), all(one.is_known for one in parts))
    if name != "ssh-keygen" or not command.has_option("-l", "-y", "-F"):  # which show something of a file
        yield from values_of(command, VALUED.get(name, ()))


def copied_into(command: Command) -> Iterator[Word]:
    """Yield the files that a copy makes in a folder, where its words show that it is one: cp a b/, cp a b c, mv a ~."""
    told = list(values_of(command, ("-t", "--target-directory")))
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
    return any(True for _ in values_of(command, SCRIPT_FIRST[name]))


def git_parts(command: Command) -> tuple[list[str], str, list[str]]:
    """Return of a command of git the settings that it is given (`-c`, `--config-env`), its verb, and what follows."""
    verb, rest = git_verb(command.arguments)
    own = command.arguments[: len(command.arguments) - len(rest)]
    settings = [word.text for word in option_values(own, frozenset({"-c", "--config-env"}))]
    return settings, verb, [word.text for word in rest]


def values_of(command: Command, names: tuple[str, ...]) -> Iterator[Word]:
    """Yield the values of options, in each way of writing them: -o x, -ox, -so x, --output x, --output=x."""
    for at, word in enumerate(command.arguments):
        for name in names:
            if word.text == name and at + 1 < len(command.arguments):
                yield command.arguments[at + 1]
            elif name.startswith("--") and word.text.startswith(f"{name}="):
                yield Word(word.text[len(name) + 1 :], word.is_known)
            elif not name.startswith("--") and (found := CLUSTER.match(word.text)) and name[1] in found[0]:
                value = word.text[word.text.index(name[1]) + 1 :]
                if value:
                    yield Word(value, word.is_known)
                elif at + 1 < len(command.arguments):
                    yield command.arguments[at + 1]


def hosts_reached(command: Command) -> Iterator[str | None]:
    """Yield the hosts that a command's words name, in lower case; None for one that is decided only when it runs."""
    name = command.program or ""
    for text in (*(one.target.text for one in command.redirects), *(word.text for word in command.arguments)):
        yield from (host.lower() for host in SOCKET.findall(text))
    if name not in SPEAKING or name in CODED:
        for told in PROXY.findall(command.text):
            yield from hosts_of("curl", Word(told, "$" not in told))
    if (
        name in DECLARING
        or name in SPEAKING
        or (name == "git" and REACHING.isdisjoint(word.text for word in command.arguments))
    ):
        return
    if name in NETWORK and "xargs" in command.within:
        yield None
    if name in NAMING_FIRST:
        first = next((word for word in after_options(command.arguments, JOINED["ssh"]._replace(before=0))), None)
        if first is not None and first.is_known and not first.text.isdigit():
            yield first.text.rpartition("@")[2].partition(":")[0].lower()
    for word in values_of(command, DIVERTING.get(name, ())):
        told = [word.text] if "://" in word.text else re.split(r":(?![^\[]*\])|=", word.text)
        yield from (host for one in told for host in hosts_of("curl", Word(one, word.is_known)))
    if name in READ_FROM_FILE and any(True for _ in values_of(command, READ_FROM_FILE[name])):
        yield None
    for word in values_of(command, HOST_OPTIONS.get(name, ())):
        yield from hosts_of("curl", word)
    if name in NAMING_FIRST or name == "scp":
        found = [HOST_OF_SSH.match(word.text) for word in option_values(command.arguments, frozenset({"-o"}))]
        yield from (one[1].rpartition("@")[2].partition(":")[0].lower() for one in found if one is not None)
    if name == "git":
        for setting in git_parts(command)[0]:
            key, _, value = setting.partition("=")
            if key.lower().endswith("proxy"):
                yield from hosts_of("curl", Word(value))
    valued = VALUES.get(name, frozenset[str]())
    taking = valued.union(DIVERTING.get(name, ()), READ_FROM_FILE.get(name, ()))  # the values of these were judged
    is_value = is_unsure = False
    for word in command.arguments:
        if not is_value:
            yield from hosts_of(name, word)
        is_long = not is_value and word.text.startswith("--") and "=" not in word.text
        is_value = not is_value and not is_unsure and takes_next(word.text, taking)
        is_unsure = is_long and not is_value and word.text not in WITHOUT_VALUE


def hosts_of(name: str, word: Word) -> Iterator[str | None]:
    """Yield the hosts that one word of a program names."""
    found = [hostname_of(url) for url in URL.findall(word.text)]
    if found:
        yield from (host if word.is_known else None for host in found)
    elif name in NETWORK and word.is_known and (loose := LOOSE.match(word.text)) is not None:
        yield hostname_of(f"http://{word.text[loose.end() :]}")
    elif name in NETWORK and not word.text.startswith("-"):
        if not word.is_known:
            yield None
        elif (bare := BARE_HOST.fullmatch(word.text.translate(DOTS))) is not None:
            yield bare[1].lower()
    elif name in REMOTE or name == "git":
        text = word.text.partition("=")[2] if name == "git" and word.text.startswith("--") else word.text
        if (like := (SCP_LIKE if name == "git" else COPIED).match(text)) is not None:
            yield like[1].lower()
        elif (
            name not in COPYING
            and not word.text.startswith("-")
            and (bare := BARE_HOST.fullmatch(word.text)) is not None
        ):
            yield bare[1].lower()
        elif name in NAMING_FIRST and not word.is_known:
            yield None


def hostname_of(url: str) -> str | None:
    """Return the host of a URL in lower case; None if it names none, or if programs would read it differently."""
    try:
        host = urlsplit(url.replace("\\", "/")).hostname  # as browsers do
    except ValueError:
        return None
    if not host or PLAIN.fullmatch(host := host.translate(DOTS)) is None:
        return None
    return host.lower().rstrip(".")


def packages_installed(command: Command) -> list[Word] | None:
    """Return what a command would install by name; an empty list if what the project declares; None if nothing."""
    name = VERSION.sub("", command.program or "")
    words = list(command.arguments)
    if name in ("python", "pypy", "py") and (at := module_at(words, "pip")):
        name, words = "pip", words[at:]
    elif name == "uv":
        if with_packages := list(values_of(command, ("--with",))):
            return with_packages
        told = [word.text for word in words]
        if "tool" in told and told[told.index("tool") + 1 :][:1] == ["run"]:
            name, words = "uvx", words[told.index("run") + 1 :]
        else:
            name = "pip" if {"pip", "tool"} & set(told) else "poetry"
            words = [word for word in words if word.text not in ("pip", "tool")]
    verbs = INSTALLERS.get(name)
    if verbs is None:
        return None
    if verbs != ("",):
        begin = verb_at(words, verbs)
        if begin is None:
            return None
        words = words[begin + 1 :]
    return [
        word
        for word in named_behind(words, VALUED_BY_INSTALLERS.get(name, frozenset[str]()))
        if "://" in word.text or (word.text != "." and not word.text.startswith(("./", "../", "/", ".[")))
    ]


def named_behind(words: Sequence[Word], valued: Container[str]) -> Iterator[Word]:
    """Yield what is named behind a verb: all but options and their values, unless those are fetched."""
    is_value = is_over = False
    for word in words:
        if is_value or (word.text.startswith("-") and not is_over):
            if "://" in word.text and not word.text.startswith(("--index-url", "--extra-index-url", "--registry")):
                yield word
            is_over = is_over or (word.text == "--" and not is_value)
            is_value = not is_value and word.text in valued
        else:
            yield word


def module_at(words: Sequence[Word], module: str) -> int:
    """Return where the words of a Python module begin, after `-m module` or `-mmodule`; 0 if another thing runs."""
    for at, word in enumerate(words):
        if not word.text.startswith("-"):
            return at + 1 if at and word.text == module and words[at - 1].text.endswith("m") else 0
        if word.text.endswith(f"m{module}"):
            return at + 1
    return 0


def verb_at(words: Sequence[Word], verbs: Sequence[str]) -> int | None:
    """Return where the first verb stands; before it are options, which may have a value each, and `global`."""
    for at, word in enumerate(words):
        if word.text in verbs:
            return at
        last = words[at - 1].text if at else ""
        if word.text.startswith(("-", "+")) or last.startswith("-"):  # +nightly
            continue
        if word.text not in ("global", "workspace") and last != "workspace":
            return None
    return None

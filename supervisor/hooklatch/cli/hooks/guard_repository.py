"""A git repository of guards on another machine or in a folder: its tags, and the guards of one commit.

The program git fetches one commit into a bare repository in a temporary folder.  Nothing is checked out, so no hook,
filter, submodule or link of that repository takes effect, and files are read from git's objects.  Addresses and
revisions come from people, locks and other machines: each has a form that git cannot take for an option or for a
program to start.  Time, memory and the size of each file that git writes, its output too, are limited.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from hooklatch.cli.terminal.parser import CommandError, Exit
from hooklatch.core.text import suggest_name
from hooklatch.file_safety import MAX_FILE
from hooklatch.files import create_anew
from hooklatch.git_sources import GUARD_NAME, GuardFiles
from hooklatch_worker.sandbox import children

__all__ = [
    "COMMIT_ID", "REVISION", "GuardRepository", "RemoteRefs", "RepositoryAddress", "parse_address", "split_revision",
]  # fmt: skip

COMMIT_ID = re.compile(r"[0-9a-f]{40}")
REVISION = re.compile(r"(?!.*\.\.)[A-Za-z0-9][\w./+-]{0,199}", re.ASCII)
HOST = r"[A-Za-z0-9][A-Za-z0-9.-]*"
GITHUB = re.compile(r"github:([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_.][\w.-]*)", re.ASCII)
# No user in an address of https: a token would be written into the lock.  Not http and git, where all may change it.
REMOTE = re.compile(
    rf"https://{HOST}(:\d+)?/[!-~]+|ssh://([\w.-]+@)?{HOST}(:\d+)?/[!-~]+|[\w.-]+@{HOST}:[!-~]+", re.ASCII
)
LOCAL = re.compile(r"(/|\./|\.\./|~/|\.\Z|\.\.\Z)[^\0-\x1f]*")
FORMS = "github:OWNER/NAME, https://HOST/PATH, ssh://HOST/PATH, USER@HOST:PATH or the path of a folder"
GUARD_FILE = re.compile(rf"({GUARD_NAME})\.(py|jsonl)")
MAX_GUARDS = 100
MAX_PACK = 64 * 2**20  # bytes of one commit, packed, and of any output
MAX_MEMORY = 2 * 2**30  # bytes; a pack of that size may hold far larger objects
FETCH_TIMEOUT = 120.0  # seconds
ENDING = (signal.SIGTERM, signal.SIGHUP)
# What the user's own settings may say otherwise.  With a limit of 1, all that is fetched is one file, whose size is
# limited; objects over 1 MiB are not held in memory.
SETTINGS = {
    "core.hooksPath": "/dev/null", "core.fsmonitor": "false", "core.bigFileThreshold": "1m", "gc.auto": "0",
    "maintenance.auto": "false", "fetch.unpackLimit": "1", "transfer.unpackLimit": "1", "fetch.fsckObjects": "true",
    "transfer.bundleURI": "false", "fetch.recurseSubmodules": "false", "fetch.writeCommitGraph": "false",
    "pack.threads": "1", "protocol.version": "2", "protocol.ext.allow": "never", "http.followRedirects": "initial",
}  # fmt: skip
GIT = children.AllowedVariables(
    children.GIT.names.union(children.NETWORK, map(str.lower, children.NETWORK), {"SSH_AUTH_SOCK"})
)


class RepositoryAddress(NamedTuple):
    """The place of a repository: as a person wrote it, as git takes it, and by which protocols."""

    text: str
    url: str
    protocols: str


class RemoteRefs(NamedTuple):
    """The commits of a repository's tags and branches, and of its default branch."""

    tags: Mapping[str, str]
    branches: Mapping[str, str]
    head: str | None

    def list_newer_tags(self, rev: str) -> list[str]:
        """Return the tags that differ from this one in a higher version alone, the lowest first."""
        prefix, version = split_version(rev)
        newer = [(split_version(tag)[1], tag) for tag in self.tags if split_version(tag)[0] == prefix]
        return [tag for number, tag in sorted(newer) if version and number > version]


def split_version(tag: str) -> tuple[str, tuple[int, ...]]:
    """Return what stands before the version in a tag, and the version; an empty one if the tag ends in none."""
    found = re.fullmatch(r"(|.*[^0-9.])([0-9]{1,9}(?:\.[0-9]{1,9})*)", tag)
    return (found[1], tuple(map(int, found[2].split(".")))) if found else (tag, ())


def split_revision(word: str) -> tuple[RepositoryAddress, str]:
    """Return the two parts of SOURCE@REV.

    Raises:
        CommandError: there is no revision, or one of them has a form that is not accepted.
    """
    source, _, rev = word.rpartition("@")
    if not source or not REVISION.fullmatch(rev):
        raise CommandError(Exit.USAGE, f"{word!r} names no revision; write SOURCE@TAG, or @ and a whole commit id")
    return parse_address(source), rev


def parse_address(text: str) -> RepositoryAddress:
    """Return where a repository is.

    Raises:
        CommandError: it is not of a form that is accepted.
    """
    if found := GITHUB.fullmatch(text):
        return RepositoryAddress(text, f"https://github.com/{found[1].removesuffix('.git')}.git", "https:ssh")
    if REMOTE.fullmatch(text) and not text.startswith("-") and "::" not in text:
        return RepositoryAddress(text, text, "https:ssh")
    if LOCAL.fullmatch(text):
        path = os.path.abspath(os.path.expanduser(text))
        return RepositoryAddress(path, path, "file")
    raise CommandError(Exit.USAGE, f"{text!r} is not the address of a repository that is accepted; write {FORMS}")


class GuardRepository:
    """A temporary bare repository into which commits of one address are fetched, removed at the end of a block."""

    def __init__(self, address: RepositoryAddress, *, timeout: float = FETCH_TIMEOUT, max_pack: int = MAX_PACK) -> None:
        """Take the seconds that git may run for, and the bytes of what it fetches or prints."""
        self._address, self._timeout, self._max_pack = address, timeout, max_pack
        self._folder = tempfile.TemporaryDirectory(prefix="hooklatch-git-")
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> GuardRepository:
        for (
            number
        ) in ENDING:  # else the end of a terminal, or of a timer's job, would leave git without a limit of time
            if signal.getsignal(number) is signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, lambda number, frame: sys.exit(128 + number))
        try:
            self._run("init", "--quiet", "--bare", "--template=")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._folder.cleanup()

    def list_refs(self) -> RemoteRefs:
        """Ask the repository for its tags and branches."""
        tags, branches, head = dict[str, str](), dict[str, str](), None
        for line in self._run("ls-remote", "--", self._address.url).decode("utf-8", "replace").splitlines():
            commit, _, name = line.partition("\t")
            if name == "HEAD":
                head = commit
            elif name.startswith("refs/heads/"):
                branches[name.removeprefix("refs/heads/")] = commit
            elif name.startswith("refs/tags/"):  # a tag with a message is followed by the commit that it is about
                tags[name.removeprefix("refs/tags/").removesuffix("^{}")] = commit
        return RemoteRefs(tags, branches, head)

    def resolve(self, rev: str, refs: RemoteRefs) -> str:
        """Return the commit of a tag, or the commit itself.

        Raises:
            CommandError: it is a branch, or there is none.
        """
        if COMMIT_ID.fullmatch(rev):
            return rev
        if rev in refs.tags:
            return refs.tags[rev]
        source = self._address.text
        if rev in refs.branches:
            raise CommandError(
                Exit.NO_INPUT,
                f"{rev!r} is a branch of {source}, and what a branch holds changes; name a tag, or the commit that it "
                f"is at now: {source}@{refs.branches[rev]}",
            )
        raise CommandError(
            Exit.NO_INPUT, f"{source} has no tag {rev!r}; name a tag or a whole commit id{suggest_name(rev, refs.tags)}"
        )

    def fetch(self, commit: str, *, tag: str | None = None) -> None:
        """Fetch one commit, by its tag if it has one, since not every server gives others.

        Raises:
            CommandError: it cannot be fetched, or the tag is another commit by now.
        """
        asked = commit if tag is None else f"refs/tags/{tag}"
        self._run("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head",
                  "--", self._address.url, f"+{asked}:refs/fetched")  # fmt: skip
        found = self._run("rev-parse", "--verify", "refs/fetched^{commit}").decode().strip()
        if found != commit:
            raise CommandError(
                Exit.FINDINGS,
                f"{self._address.text} gave commit {found}, not {commit}: it changed meanwhile; try again",
            )

    def verify_tag(self, tag: str, commit: str, signers: Collection[str]) -> None:
        """Check that one of these public SSH keys has signed the tag that was fetched, as this tag of this commit.

        Raises:
            CommandError: none has.
        """
        what = f"the tag {tag} of {self._address.text}"
        if self._run("cat-file", "-t", "refs/fetched") != b"tag\n":
            raise CommandError(Exit.FINDINGS, f"{what} is not signed: it has no message; have it signed: git tag -s")
        # The signature is about these lines too: else a signed tag of an old version could be shown as another one.
        head = self._run("cat-file", "tag", "refs/fetched").split(b"\n")[:3]
        if head != [f"object {commit}".encode(), b"type commit", f"tag {tag}".encode()]:
            raise CommandError(Exit.FINDINGS, f"{what} is one that was made under another name, or of another object")
        path = os.path.join(self._folder.name, "signers")
        with os.fdopen(create_anew(path), "w") as file:
            file.writelines(f'* namespaces="git" {signer}\n' for signer in signers)
        verifying = {
            "gpg.format": "ssh", "gpg.ssh.program": "ssh-keygen", "gpg.ssh.allowedSignersFile": path,
            "gpg.minTrustLevel": "fully", "gpg.program": "false",
            "gpg.openpgp.program": "false", "gpg.x509.program": "false",
        }  # fmt: skip
        code, _, err = self._run_to_end("verify-tag", "refs/fetched", settings=verifying)
        if code != 0:
            raise CommandError(
                Exit.FINDINGS,
                f"{what} is not signed by a key of signers, in SSH's form ({err}); nothing of it was taken",
            )

    def read_guards(self, commit: str, only: Collection[str]) -> tuple[dict[str, GuardFiles], list[str]]:
        """Return the guards of a commit that was fetched, and the names of what else is beside them.

        Raises:
            CommandError: one of them is a link, is too large or not a text; or one of `only` is not there.
        """
        source, folder = self._address.text, commit
        entries = self._list_folder(folder)
        if "guards" in entries:
            folder = f"{commit}:guards"
            if entries["guards"][0] != "040000":
                raise CommandError(Exit.BAD_DATA, f"'guards' of {source} is not a folder; it was not followed")
            entries = self._list_folder(folder)
        files: dict[str, dict[str, str]] = {}
        left_out: list[str] = []
        for name, (mode, blob, size) in entries.items():
            found = GUARD_FILE.fullmatch(name)
            if name.endswith((".py", ".jsonl")) and mode not in ("100644", "100755"):
                raise CommandError(
                    Exit.BAD_DATA, f"{name!r} of {source} is a link or a folder, not a file; nothing of it was taken"
                )
            if found is None:
                left_out.append(name)
            elif not size.isdecimal() or int(size) > MAX_FILE:
                raise CommandError(Exit.BAD_DATA, f"{name!r} of {source} is over {MAX_FILE // 2**20} MiB")
            else:
                files.setdefault(found[1], {})[found[2]] = blob
        whole = {name: both for name, both in files.items() if len(both) == 2}
        left_out += [f"{name}.{end}" for name, both in files.items() if name not in whole for end in both]
        wanted = list(dict.fromkeys(only)) or sorted(whole)
        for name in wanted:
            if name not in whole:
                raise CommandError(
                    Exit.NO_INPUT,
                    f"{source} has no guard {name!r} with cases at commit {commit[:12]}{suggest_name(name, whole)}",
                )
        if not 0 < len(wanted) <= MAX_GUARDS:
            raise CommandError(
                Exit.NO_INPUT,
                f"{source} has {len(wanted)} guards at commit {commit[:12]}, where 1 to {MAX_GUARDS} are taken: "
                "a guard is NAME.py with its cases NAME.jsonl, at the top or in the folder guards",
            )
        guards = {name: GuardFiles(self._read(whole[name]["jsonl"]), self._read(whole[name]["py"])) for name in wanted}
        return guards, sorted(left_out)

    def merge(self, yours: str, base: str, theirs: str) -> tuple[str, bool]:
        """Return a text with the changes of both, and whether they conflict; then it has marks where they do."""
        paths = [os.path.join(self._folder.name, name) for name in ("yours", "base", "theirs")]
        for path, text in zip(paths, (yours, base, theirs), strict=True):
            with os.fdopen(create_anew(path), "wb") as file:
                file.write(text.encode())
        labels = [word for label in ("yours", "as it was taken", "new") for word in ("-L", label)]
        code, out, err = self._run_to_end("merge-file", "-p", *labels, "--", *paths)
        if not 0 <= code < 128:
            raise CommandError(Exit.FINDINGS, f"git cannot merge the changes: {err}")
        return out.decode(), code > 0

    def _list_folder(self, tree: str) -> dict[str, tuple[str, str, str]]:
        """Return mode, object and size of each entry."""
        listed = self._run("ls-tree", "-z", "-l", tree).decode("utf-8", "backslashreplace").split("\0")
        rows = [(line.partition("\t")[0].split(), line.partition("\t")[2]) for line in listed if line]
        return {name: (mode, blob, size) for (mode, _, blob, size), name in rows}

    def _read(self, blob: str) -> str:
        try:
            return self._run("cat-file", "blob", blob).decode()
        except UnicodeDecodeError:
            raise CommandError(Exit.BAD_DATA, f"a guard or its cases in {self._address.text} are not UTF-8") from None

    def _run(self, *words: str) -> bytes:
        code, out, err = self._run_to_end(*words)
        if code != 0:
            limit = f", and may fetch {self._max_pack / 2**20:g} MiB" if words[0] == "fetch" else ""
            text = f"{self._address.text} cannot be read (git {words[0]}, exit code {code}{limit}): {err}"
            raise CommandError(Exit.NO_INPUT, f"{text}; what you have stays as it is")
        return out

    def _run_to_end(self, *words: str, settings: Mapping[str, str] = {}) -> tuple[int, bytes, str]:
        given = [word for name, value in {**SETTINGS, **settings}.items() for word in ("-c", f"{name}={value}")]
        environ = GIT.of(os.environ) | {
            "GIT_DIR": self._folder.name, "GIT_ALLOW_PROTOCOL": self._address.protocols, "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C",
        }  # fmt: skip
        # The output goes to files, whose size is limited.  A session of its own has no terminal to ask a person at.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = children.start_child(
                    ["git", *given, *words], environ, cwd=self._folder.name, stdin=subprocess.DEVNULL,
                    stdout=out.fileno(), stderr=err.fileno(), start_new_session=True, umask=0o077,
                    preexec_fn=partial(limit_process, self._max_pack),
                )  # fmt: skip
            except FileNotFoundError:
                raise CommandError(Exit.NO_INPUT, "git is not installed; shared guards are fetched by it") from None
            with process:
                try:
                    code = process.wait(self._timeout)
                except subprocess.TimeoutExpired:
                    code = -signal.SIGALRM
                    err.write(b"it did not end within %g s" % self._timeout)
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            out.seek(0)
            err.seek(0)
            return code, out.read(), " ".join(err.read(4000).decode("utf-8", "replace").split())


def limit_process(max_file: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_file, max_file))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))

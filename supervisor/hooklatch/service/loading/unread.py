"""Files that look like a guard and guard nothing: entries of hooks.d that nothing reads, and sources without a hook.

Each entry is read, or known not to be a guard, or reported: red if it is a program or source code, else as a warning.

    known to be none   policy-tests, README, hidden files, caches, what editors leave, environments
    used               a part of a build, data that is named, an interpreter, or a name in the command of a hook
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib.machinery import all_suffixes
from itertools import islice

import msgspec

import hooklatch
from hooklatch.core.hooks.registry import PythonTarget
from hooklatch.disks import limit_look, limit_tree_look
from hooklatch.files import open_regular_file
from hooklatch.path_lookup import (
    DirectoryNames,
    Listing,
    PathAbsent,
    Stamp,
    list_directory,
    stamp_status,
    status_at,
)
from hooklatch.service.config.configuration import Diagnostic
from hooklatch.service.loading.plan import ReloadPlan, list_all_configs
from hooklatch.service.loading.see import ENDINGS
from hooklatch.service.loading.sources import SourceBuild, find_definition_target
from hooklatch.service.loading.trust import project_hooks_folder
from hooklatch_worker.author.failures import PACKAGES

__all__ = ["MARK", "UnreadEntries", "UsedPaths", "find_unread_entries"]

MARK = "# hooklatch: no hooks"
SAYS_NONE = re.compile(rb"^[ \t]*#[ \t]*hooklatch:[ \t]*no hooks[ \t\r]*$", re.MULTILINE | re.IGNORECASE)
EMPTY = re.compile(rb"(?:\s*#[^\n]*|\s+)*+")
MARKS = re.compile(rb"^[ \t]*@(?:\w+\.)*hook\(", re.MULTILINE)
NONE = re.compile(r"\..*|readme.*|policy-tests(\..*)?|__pycache__|.*(~|\.(bak|sw[op]|orig|rej))|#.*#", re.IGNORECASE)
LANGUAGES = re.compile(
    "awk|bash|bat|cc?|[cm]?[jt]sx?|clj|cmd|coffee|cpp|csh?|dash|exs?|exe|fish|go|groovy|hs|jar|java|jl|ksh|kt|lua|nu|php"
    "|p[lm]|ps1|py[3cowx]?|rb?|rego|rs|scala|sh|so|swift|tcl|wasm|zsh"
)
TABLES = re.compile("cfg|conf|ini|json5|jsonc|toml|xml|ya?ml")  # other ways to write a file of hooks
ABOUT_HOOKS = re.compile(rb"hook|pre_?tool_?use", re.IGNORECASE)
NO_SLIP = frozenset(("jsonl", "pyi"))  # near another ending, and hardly meant as that
HEAD = 2**16  # bytes of a file that are looked at
MOST = 1000  # entries of a folder that are
PACKAGES_OF_HOOKS = ("hooklatch", "hooklatch_worker", "msgspec")

NOT_AN_ENDING = f"it is not read, since its ending is not one of {', '.join(ENDINGS)}; rename it"
PROGRAM = (
    "it is a program that nothing runs: name it in the command or argv of a [[hook]], or take it out of this folder"
)
FOLDER = (
    "it is a folder that nothing reads: move its files up, name them in a [[source]], import them in a hook, or take it"
    " out of this folder"
)
HIDDEN = f"it marks hooks and is no source, so nothing calls them; name it in a [[source]], or write into it: {MARK}"
DECLARES_NONE = "it declares no hook, so it guards nothing; write one into it, or take it out of this folder"
UNREAD = "nothing reads it: name it in files, or take it out of this folder"


class FolderEntry(msgspec.Struct, frozen=True):
    """An entry that no build has; `text` is the beginning of a file, `below` are the files in a folder."""

    path: str
    is_folder: bool = False
    is_link: bool = False
    is_executable: bool = False
    text: bytes = b""
    below: list[FolderEntry] = []

    @property
    def is_program(self) -> bool:
        ending = self.path.lower().rpartition(".")[2]
        return self.is_executable or self.text.startswith(b"#!") or LANGUAGES.fullmatch(ending) is not None


class UsedPaths(msgspec.Struct, frozen=True):
    """The paths that hooks use, of builds and of data, and the commands that they run.

    `broken` are files that cannot be used, so that each word of theirs may name something.  `hookless` are the texts of
    sources that mark no hook, `bare` the files of tables that declare nothing, and `imported` those that hooks import.
    """

    paths: frozenset[str]
    commands: str
    broken: frozenset[str]
    hookless: Mapping[str, bytes]
    bare: Collection[str]
    imported: frozenset[str]
    folders: Collection[str]  # of hooks: hooks.d, and those of projects
    beside: Collection[str]  # of sources
    texts: str = ""  # of what is broken

    @classmethod
    def by(
        cls,
        taken: ReloadPlan,
        units: Mapping[str, SourceBuild],
        faults: Collection[str],
        targets: Collection[PythonTarget],
    ) -> UsedPaths:
        """Return what is used by a plan's files and builds, and by the `targets` of hooks of clients."""
        files = list_all_configs(taken.files, None, taken.projects)
        called = {target.source.location for target in targets}
        commands = [target.command for target in targets]
        for config in files:
            for hook in config.hooks:
                called.add(find_definition_target(hook, os.path.dirname(config.path))[0].location)
                commands.append(hook.shell.describe() if hook.shell is not None else "")
        declared = {table.source.location for config in files for table in config.sources}
        paths = {*called, *taken.wanted, *faults, *taken.pythons.values()}
        paths.update(*taken.named.values())
        for unit in units.values():
            paths.update(unit.stamps, unit.environment.marks if unit.environment is not None else ())
        hooked = {location for location, unit in units.items() if unit.loaded.hooks or location in called}
        reported = {location for location, unit in units.items() if unit.loaded.elsewhere}  # which are diagnostics
        return cls(
            frozenset(paths),
            "\n".join(commands),
            frozenset((*faults, *(file.path for file in taken.files if file.fault is not None))),
            {location: units[location].text for location in (declared & units.keys()) - hooked - reported},
            [config.path for config in files if config.is_bare],
            frozenset(path for location in hooked for path in units[location].digests if path != location),
            [
                taken.folder,
                *(os.path.join(project_hooks_folder(project.folder), "hooks.d") for project in taken.projects),
            ],
            {os.path.dirname(source.location) for source in taken.wanted.values() if source.kind == "file"},
        )

    def has(self, path: str) -> bool:
        """Return whether a file, or something in a folder, is a part of a build, or named by a command."""
        is_there = path in self.paths or any(other.startswith(f"{path}/") for other in self.paths)
        return is_there or self.has_name_of(path)

    def has_name_of(self, path: str) -> bool:
        name = os.path.basename(path)
        return has_word(self.commands, name) or has_word(self.texts, name.removesuffix(".py"))

    def with_texts(self) -> UsedPaths:
        """Return the same with the texts of what is broken, in a thread."""
        texts = [read_text(path) for path in sorted(self.broken) if os.path.isabs(path)]
        return msgspec.structs.replace(self, texts=b"\n".join(texts).decode(errors="replace"))


def has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) is not None


class UnreadEntries(msgspec.Struct, frozen=True):
    """The findings about files that guard nothing: red ones, warnings, and notes on those that may be meant so.

    `bare` are files that declare no hook, of which the warnings say so.
    """

    red: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    notes: list[Diagnostic] = []
    bare: frozenset[str] = frozenset()


def find_unread_entries(used: UsedPaths, listings: Mapping[str, Listing]) -> UnreadEntries:
    """Look at the entries that nothing reads, and report those that guard nothing; runs in a thread.

    `listings` are the folders that are listed already.
    """
    used = used.with_texts()
    names: dict[str, list[str] | None] = {}  # None: it cannot be listed
    for folder in (*used.folders, *sorted(used.beside)):
        listing = listings.get(folder) or list_directory(folder)
        if isinstance(listing, DirectoryNames):
            names[folder] = listing.names
        else:
            names[folder] = [] if isinstance(listing, PathAbsent) else None
    shadows = [found for folder in sorted(used.beside) for found in find_shadows(folder, names[folder])]
    named = {found.file for found in shadows}
    bare = list(list_bare_files(used))
    found = [
        *find_unmarked_sources(used),
        *(Diagnostic(path, 0, DECLARES_NONE, is_red=False) for path in bare),
        # one that cannot be listed is a diagnostic
        *(entry for folder in used.folders for entry in list_unread_entries(folder, names[folder] or (), used)),
    ]
    found = [diagnostic for diagnostic in found if diagnostic.file not in named]
    beside = [folder for folder in names if folder not in used.folders]
    return UnreadEntries(
        [*shadows, *(diagnostic for diagnostic in found if diagnostic.is_red)],
        [diagnostic for diagnostic in found if not diagnostic.is_red],
        [stray for folder in beside for stray in find_strays(folder, names[folder] or (), used)],
        frozenset(bare),
    )


# -- sources -----------------------------------------------------------------------------------------------------


def has_no_hooks_mark(text: bytes) -> bool:
    """Return whether a file says that it holds no hooks."""
    return SAYS_NONE.search(text) is not None


def find_hook_mark(text: bytes) -> int:
    """Return the line of the first function that a text marks with @hook; 0 if there is none."""
    found = MARKS.search(text) if b"hooklatch" in text else None
    return text.count(b"\n", 0, found.start()) + 1 if found is not None else 0


def is_empty(location: str, text: bytes) -> bool:
    return os.path.isabs(location) and EMPTY.fullmatch(text) is not None


def list_bare_files(used: UsedPaths) -> Iterator[str]:
    """Yield the files that declare no hook, where one is expected: without code, or tables in a folder of hooks.

    Of a broken one it is unknown what it declares, though the last good version of it had nothing.
    """
    for location, text in sorted(used.hookless.items()):
        is_none = has_no_hooks_mark(text) or os.path.basename(location) == "__init__.py"
        is_used = location in used.imported or used.has_name_of(location)
        if is_empty(location, text) and not (is_none or is_used or location in used.broken):
            yield location
    yield from (path for path in used.bare if os.path.dirname(path) in used.folders and path not in used.broken)


def find_unmarked_sources(used: UsedPaths) -> Iterator[Diagnostic]:
    """Report the sources that mark no hook, and that nothing imports."""
    for location, text in sorted(used.hookless.items()):
        is_none = has_no_hooks_mark(text) or is_empty(location, text)
        if is_none or location in used.imported or used.has_name_of(location):
            continue
        line = find_hook_mark(text)
        why = f"the @hook in line {line} did not run when it was loaded" if line else "it marks no function with @hook"
        way = f"if that is meant, write into it: {MARK}" if os.path.isabs(location) else "remove its [[source]]"
        yield Diagnostic(location, line, f"{why}, so it guards nothing; {way}")


def find_strays(folder: str, names: Iterable[str], used: UsedPaths) -> Iterator[Diagnostic]:
    """Report the files beside a source that mark hooks and are not a source; no other file there is ours."""
    if os.path.basename(folder) in PACKAGES:
        return
    for name in [name for name in names if name.endswith(".py") and name[0] != "."][:MOST]:
        path = os.path.join(folder, name)
        if path not in used.paths and (line := marks_at(path)):
            yield Diagnostic(path, line, HIDDEN, is_red=False)


def marks_at(path: str) -> int:
    """Return the line of the first @hook in a file that does not say that it holds none; 0 if there is none."""
    try:
        return marks_by(path, stamp_status(status_at(path)))
    except (OSError, ValueError):  # its disk is late, it is gone, or it has a null byte
        return 0


@lru_cache(maxsize=4 * MOST)
def marks_by(path: str, _stamp: Stamp) -> int:
    """Do the same for a file as it is at a stamp: what has not changed is not read again at the next reload."""
    text = head_of(path)
    return 0 if has_no_hooks_mark(text) else find_hook_mark(text)


@limit_look
def head_of(path: str) -> bytes:
    with open_regular_file(path) as file:
        return file.read(HEAD)


def find_shadows(folder: str, names: list[str] | None) -> list[Diagnostic]:
    """Report the modules beside a source that it imports in place of a package that marks its hooks."""
    if names is not None and not any(name.partition(".")[0] in PACKAGES_OF_HOOKS for name in names):
        return []
    try:
        found = list_shadowing_modules(folder)
    except (OSError, ValueError):
        return []  # it is a diagnostic of the source
    text = "is imported in place of the package {}, so no @hook beside it marks anything; rename it"
    return [Diagnostic(path, 0, f"it {text.format(name)}") for name, path in found]


@limit_look
def list_shadowing_modules(folder: str) -> list[tuple[str, str]]:
    ours = os.path.dirname(os.path.dirname(os.path.abspath(hooklatch.__file__)))
    if os.path.basename(folder) in PACKAGES or os.path.realpath(folder) == os.path.realpath(ours):
        return []
    paths = [(name, f"{folder}/{name}{way}") for name in PACKAGES_OF_HOOKS for way in ("/__init__", "")]
    return [
        (name, f"{path}{ending}") for name, path in paths for ending in all_suffixes() if os.path.isfile(path + ending)
    ]


# -- entries of hooks.d ------------------------------------------------------------------------------------------


def list_unread_entries(folder: str, names: Iterable[str], used: UsedPaths) -> Iterator[Diagnostic]:
    """Report each entry of a folder of hooks that is neither read nor known not to be a guard."""
    for name in names:
        path = os.path.join(folder, name)
        if NONE.fullmatch(name) is not None or name.endswith(ENDINGS):
            continue
        try:
            entry = look_at_entry(path)
        except OSError:
            entry = FolderEntry(path)
        shown = path.encode("utf-8", "backslashreplace").decode()
        if used.has(path):
            hidden = (file for file in entry.below if file.path not in used.paths and not has_no_hooks_mark(file.text))
            yield from (Diagnostic(file.path, line, HIDDEN) for file in hidden if (line := find_hook_mark(file.text)))
        elif (why := explain_suspicion(entry)) is not None:
            yield Diagnostic(shown, 0, why)
        elif entry.below or not entry.is_folder:
            yield Diagnostic(shown, 0, UNREAD, is_red=False)


def explain_suspicion(entry: FolderEntry) -> str | None:
    """Return why an entry that nothing uses may be taken for a guard."""
    name = os.path.basename(entry.path).lower()
    if entry.is_folder:
        return FOLDER if entry.is_link or any(file.is_program for file in entry.below) else None
    ending = name.rpartition(".")[2]
    if entry.is_program and not name.endswith(ENDINGS):
        return PROGRAM
    is_table = TABLES.fullmatch(ending) is not None and ABOUT_HOOKS.search(entry.text) is not None
    is_near = ending not in NO_SLIP and get_close_matches(f".{ending}", ENDINGS, n=1, cutoff=0.85)
    return NOT_AN_ENDING if is_table or is_near else None


@limit_tree_look
def look_at_entry(path: str) -> FolderEntry:
    """Look at the entry at a path.

    Raises:
        OSError: the entry cannot be looked up.
    """
    if not stat.S_ISDIR(os.stat(path).st_mode):
        return look_at_file(path)
    return FolderEntry(path, is_folder=True, is_link=os.path.islink(path), below=list(islice(list_entries(path), MOST)))


def list_entries(path: str) -> Iterator[FolderEntry]:
    for folder, folders, names in os.walk(path):
        if "pyvenv.cfg" in names:
            folders.clear()
            continue
        folders[:] = sorted(entry for entry in folders if NONE.fullmatch(entry) is None)
        for name in sorted(entry for entry in names if NONE.fullmatch(entry) is None):
            yield look_at_file(os.path.join(folder, name))


def read_text(path: str) -> bytes:
    try:
        return look_at_file(path).text
    except (OSError, ValueError):  # its disk is late, or it has a null byte
        return b""


@limit_look
def look_at_file(path: str) -> FolderEntry:
    try:
        is_executable = stat.S_ISREG(mode := os.stat(path).st_mode) and bool(mode & 0o111)
        with open_regular_file(path) as file:
            return FolderEntry(path, is_executable=is_executable, text=file.read(HEAD))
    except OSError:  # no file, or a link that leads nowhere
        return FolderEntry(path)

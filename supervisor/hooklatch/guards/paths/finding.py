"""Files that `find` may find, by its conditions: whether they leave out most of a folder, and a repository's history.

The conditions are tried on names as folders have them.  Knows words of find; looks at no disk.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeAlias

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.words import Word

__all__ = ["measure_left_out", "may_find", "names_told", "list_roots"]

# Files and folders below one that is searched, but for what is built or fetched: those that no user wants to lose.
HISTORY: Final = (
    ".git/", ".git/config", ".git/HEAD", ".git/objects/", ".git/objects/3f/", ".git/objects/3f/786850e387",
    ".git/refs/heads/main", ".git/refs/tags/v1.0", ".git/logs/HEAD", ".git/packed-refs", ".git/index",
    ".git/objects/pack/pack-1f2e.pack", ".hg/store/00changelog.i", ".svn/wc.db", ".jj/repo/store/type",
)  # fmt: skip
WORK: Final = (
    "src/", "src/main.py", "src/app/", "src/app/view.tsx", "tests/", "tests/test_main.py", "docs/", "docs/index.md",
    "README.md", "package.json", "Makefile", "scripts/run.sh", "config/prod.yaml", "lib/util.go", "data/users.csv",
    "public/logo.svg", "Dockerfile", ".env", ".github/workflows/ci.yml", "notes.txt",
)  # fmt: skip
OPTIONS: Final = frozenset({"-L", "-H", "-P"})
TAKING: Final = {  # words behind each of these; what is known of them stands below
    "-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-iwholename": 1, "-regex": 1, "-iregex": 1,
    "-type": 1, "-xtype": 1, "-maxdepth": 1, "-mindepth": 1, "-mtime": 1, "-mmin": 1, "-atime": 1, "-amin": 1,
    "-ctime": 1, "-cmin": 1, "-newer": 1, "-anewer": 1, "-cnewer": 1, "-size": 1, "-user": 1, "-group": 1, "-uid": 1,
    "-gid": 1, "-perm": 1, "-links": 1, "-inum": 1, "-samefile": 1, "-lname": 1, "-ilname": 1, "-fstype": 1,
    "-used": 1, "-context": 1, "-regextype": 1, "-printf": 1, "-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2,
}  # fmt: skip
ALWAYS: Final = frozenset({
    "-print", "-print0", "-printf", "-ls", "-true", "-fprint", "-fprint0", "-fls", "-fprintf", "-depth", "-d",
    "-mount", "-xdev", "-daystart", "-noleaf", "-warn", "-nowarn", "-regextype", "-maxdepth", "-mindepth",
    "-ignore_readdir_race", "-noignore_readdir_race", "-follow",
})  # fmt: skip
RUNNING: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
PRINTING: Final = frozenset({"-print", "-print0", "-printf", "-ls"})
ACTIONS: Final = RUNNING | PRINTING | {"-delete"}
PLAIN_REGEX: Final = re.compile(r"(?:[\w/ -]|\\[.]|\.\*?|\[[\w-]+\]|\$|\^)*")
FEW: Final = 3  # one of so many files is few
MAX_STARTS: Final = 16  # folders for which conditions are tried; they mean the same for others
MAX_WORDS: Final = 100  # of conditions
Left: TypeAlias = Literal["most", "unknown", "little"]


class TrialFile(NamedTuple):
    """One file of those that the conditions are tried on."""

    path: str
    is_folder: bool
    depth: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class TrialAnswers(NamedTuple):
    """The answers of a condition: that it may hold, and that it may fail; both where this is not known."""

    may_hold: bool = True
    may_fail: bool = True


YES: Final = TrialAnswers(may_fail=False)
NO: Final = TrialAnswers(may_hold=False)
EITHER: Final = TrialAnswers()


def list_roots(command: Command) -> list[Word]:
    """Return where find begins."""
    words = command.arguments[find_first_root(command.arguments) :]
    return list(itertools.takewhile(is_root, words)) or [Word(".")]


def is_root(word: Word) -> bool:
    return word.text[:1] not in ("-", "(", "!", ")", ",")


def measure_left_out(command: Command) -> Left:
    """Return how much the conditions leave out of a folder: "most", and all of a history, or "little".

    "unknown" if that is decided by ages, sizes and owners, or by what is known only when it runs.
    """
    texts = list_conditions(command)
    if texts is None:
        return "unknown"
    return measure_least_left_out(tuple(texts), list_starts(command))


@functools.lru_cache(maxsize=256)
def measure_least_left_out(texts: tuple[str, ...], starts: tuple[str, ...]) -> Left:
    """Return how much conditions leave out where that is least."""
    found = [[try_conditions(texts, start, file) for file in files] for start in starts for files in (HISTORY, WORK)]
    most = [0, len(WORK) // FEW] * len(starts)
    if any(sum(trial.is_sure for trial in trials if trial) > count for trials, count in zip(found, most, strict=True)):
        return "little"
    if any(
        sum(trial.is_reached for trial in trials if trial) > count for trials, count in zip(found, most, strict=True)
    ):
        return "unknown"
    return "most"


def may_find(command: Command, files: Sequence[str]) -> bool:
    """Return whether find may find one of these below where it begins."""
    texts = list_conditions(command)
    if texts is None:
        return True
    return is_any_found(tuple(texts), list_starts(command), tuple(files))


@functools.lru_cache(maxsize=256)
def is_any_found(texts: tuple[str, ...], starts: tuple[str, ...], files: tuple[str, ...]) -> bool:
    trials = [try_conditions(texts, start, file) for start in starts for file in files]
    return any(trial is not None and trial.is_reached for trial in trials)


def list_starts(command: Command) -> tuple[str, ...]:
    """Return where find begins, as it puts that before what it finds."""
    return tuple(dict.fromkeys(word.text.rstrip("/") for word in list_roots(command)))[:MAX_STARTS]


def list_conditions(command: Command) -> list[str] | None:
    """Return the words of find behind where it begins; None if they are not known, or too many."""
    conditions = itertools.dropwhile(is_root, command.arguments[find_first_root(command.arguments) :])
    texts: list[str] = []
    for word in conditions:
        if (not word.is_known and RUNNING.isdisjoint(texts)) or len(texts) == MAX_WORDS:
            return None
        texts.append(word.text)
    return texts


def find_first_root(words: Sequence[Word]) -> int:
    """Return where the options of find itself end."""
    at = 0
    while at < len(words) and (words[at].text in OPTIONS or words[at].text == "-D" or words[at].text.startswith("-O")):
        at += 2 if words[at].text == "-D" else 1
    return at


def try_conditions(texts: Sequence[str], start: str, path: str) -> FindTrial | None:
    """Return what find does to a file below where it begins; None if it does not look there."""
    file = TrialFile(f"{start}/{path.rstrip('/')}", path.endswith("/"), path.rstrip("/").count("/") + 1)
    for word, value in itertools.pairwise(texts):
        limit = int(value) if value.isdecimal() and len(value) < 9 else file.depth
        if (word == "-maxdepth" and file.depth > limit) or (word == "-mindepth" and file.depth < limit):
            return None
    parts = path.split("/")
    above = [TrialFile(f"{start}/{'/'.join(parts[:at])}", True, at) for at in range(1, file.depth)]
    if "-prune" in texts and any(FindTrial(texts, folder).is_pruned for folder in above):
        return None
    return FindTrial(texts, file)


class FindTrial:
    """Reads an expression of find for one file: whether it may reach an action there, and whether it surely does."""

    def __init__(self, texts: Sequence[str], file: TrialFile) -> None:
        self._texts, self._file, self._at = texts, file, 0
        self._live: bool = True  # whether what stands here may be tried
        self._certain: bool = True  # and whether it surely is
        self._acts = not ACTIONS.isdisjoint(texts)
        self.is_reached: bool = False
        self.is_sure: bool = False
        self.is_pruned: bool = False
        answers = self._list()
        if not self._acts or self._at < len(texts):
            self.is_reached = self.is_reached or answers.may_hold or self._at < len(texts)
            self.is_sure = self.is_sure or not answers.may_fail

    def _act(self) -> None:
        self.is_reached = self.is_reached or self._live
        self.is_sure = self.is_sure or self._certain

    def _list(self) -> TrialAnswers:
        answers = self._either()
        while self._take(","):
            answers = self._either()
        return answers

    def _either(self) -> TrialAnswers:
        live, certain = self._live, self._certain
        answers = self._both()
        while self._take("-o", "-or"):
            self._live, self._certain = live and answers.may_fail, certain and not answers.may_hold
            other = self._both()
            answers = TrialAnswers(answers.may_hold or other.may_hold, answers.may_fail and other.may_fail)
        self._live, self._certain = live, certain
        return answers

    def _both(self) -> TrialAnswers:
        live, certain = self._live, self._certain
        answers = self._one()
        while self._at < len(self._texts) and self._texts[self._at] not in ("-o", "-or", ",", ")"):
            self._take("-a", "-and")
            self._live, self._certain = self._live and answers.may_hold, self._certain and not answers.may_fail
            other = self._one()
            answers = TrialAnswers(answers.may_hold and other.may_hold, answers.may_fail or other.may_fail)
        self._live, self._certain = live, certain
        return answers

    def _take(self, *signs: str) -> bool:
        if self._at < len(self._texts) and self._texts[self._at] in signs:
            self._at += 1
            return True
        return False

    def _one(self) -> TrialAnswers:
        if self._take("!", "-not"):
            answers = self._one()
            return TrialAnswers(answers.may_fail, answers.may_hold)
        if self._take("("):
            answers = self._list()
            self._take(")")
            return answers
        if self._at >= len(self._texts):
            return YES
        word = self._texts[self._at]
        self._at += 1
        if word in RUNNING:
            return self._action()
        values = self._texts[self._at : self._at + TAKING.get(word, 0)]
        self._at += len(values)
        return self._condition(word, values[0] if values else "")

    def _action(self) -> TrialAnswers:
        while self._at < len(self._texts) and self._texts[self._at] != ";":
            is_over = self._texts[self._at] == "+" and self._texts[self._at - 1] == "{}"
            if is_over:
                break
            self._at += 1
        self._at += 1
        self._act()
        return EITHER

    def _condition(self, word: str, value: str) -> TrialAnswers:
        file = self._file
        match word:
            case "-name" | "-iname":
                return match_find_pattern(value, file.name, word)
            case "-path" | "-ipath" | "-wholename" | "-iwholename":
                return match_find_pattern(value, file.path, word)
            case "-regex" | "-iregex":
                if PLAIN_REGEX.fullmatch(value) is None or len(value) > 255:
                    return EITHER
                flags = re.IGNORECASE if word == "-iregex" else 0
                return YES if re.fullmatch(value, file.path, flags) else NO
            case "-type" | "-xtype":
                return YES if ("d" if file.is_folder else "f") in value.split(",") else NO
            case "-empty" | "-false":
                return NO  # what is empty holds nothing that is lost
            case "-prune":
                self.is_pruned = self.is_pruned or self._certain
                return YES
            case "-delete":
                self._act()
                return YES
            case "-quit":
                return NO
            case _ if word in ALWAYS:
                if word in PRINTING and "-delete" not in self._texts and RUNNING.isdisjoint(self._texts):
                    self._act()  # it hands on what it has found
                return YES
            case _ if word in TAKING:
                return EITHER  # an age, a size, an owner: of which files is not known
            case _:
                return EITHER


def match_find_pattern(pattern: str, text: str, word: str) -> TrialAnswers:
    """Return whether a pattern of find matches: to it what is hidden, and a slash, are characters like others."""
    if len(pattern) > 255:
        return EITHER
    if word.startswith("-i"):
        pattern, text = pattern.lower(), text.lower()
    pattern = re.sub(r"\\(.)", r"[\1]", pattern) if "\\" in pattern else pattern
    return YES if fnmatchcase(text, pattern.replace("[^", "[!")) else NO


def names_told(words: Sequence[str]) -> list[str]:
    """Return the names of find's conditions that none of the words before takes back."""
    words = ["", "", *words]
    return [
        words[at]
        for at in range(2, len(words))
        if words[at - 1] in ("-name", "-iname") and words[at - 2] not in ("!", "-not")
    ]

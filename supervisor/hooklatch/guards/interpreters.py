"""Whether an interpreter is told its whole program by its words, so that what it reads is data.

Yes only for the few shapes that are known to read data as data; all else may run what it reads.  Knows commands, no
policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hooklatch.guards.command import Command

__all__ = ["reads_data"]

# How an interpreter's option is written that is followed by the program.  Those that are not here are not known.
TOLD: Final = {
    "python": re.compile(r"-[BEIObsuv]*c"),
    "pypy": re.compile(r"-[BEIObsuv]*c"),
    "node": re.compile(r"-e|-p|-pe|--eval|--print"),
    "perl": re.compile(r"-[nplaw0-9]*[eE]"),
    "ruby": re.compile(r"-[nplaw]*e"),
}
HARMLESS: Final = re.compile(r"-[BEIObsuvnplaw0-9]+")  # options that may stand before it
MODULES: Final = frozenset({"json.tool", "base64"})  # of Python, which run nothing
IMPORTED: Final = frozenset({  # by a program in Python, which run nothing either
    "sys", "json", "re", "csv", "math", "collections", "itertools", "functools", "datetime", "time", "base64", "html",
    "hashlib", "statistics", "string", "textwrap", "tomllib", "urllib.parse", "xml.etree.ElementTree", "pprint", "zlib",
    "gzip", "binascii", "struct", "unicodedata",
})  # fmt: skip
IMPORTS: Final = re.compile(r"\bfrom\s+([\w.]+)\s+import\b|\bimport\b([^;\n]*)")
STREAM: Final = re.compile(r"/dev/(?:stdin|fd\b|tty)|/proc/|php:")
RUNS_DATA: Final = re.compile(
    r"exec|eval|compile|system|popen|subprocess|spawn|import_module|pickle|[Mm]arshal|Function|constructor|\bvm\b|code\."
    r"|runpy|run_path|run_module|interact|INSPECT|\bdo\b|(?<!\.)\bload\b|require(?!\(['\"](?:node:)?fs['\"]\))|include"
    r"|import\s*\(|`|\bqx|%x|\bopen\b|send\b|\bmethod\b|\bIO\b|Open3|YAML|dlopen|\bglobal|Kernel|__|modules|getattr|globals|builtins|\bvars\b|[^\w\s][gimrsx]*e[gimrsx]*e\b|inding"
)
WITH_VERBS: Final = frozenset({"deno", "bun"})
VERSION: Final = re.compile(r"(?<=[a-z])[\d.]+\Z")  # python3.12


def reads_data(command: Command) -> bool:
    """Return whether an interpreter is told what to run, by a file or by its words, and reads all else as data."""
    name = VERSION.sub("", command.program or "")
    told = [word.text for word in command.arguments]
    if not told or "-" in told or {"xargs", "parallel"} & set(command.within) or "PYTHONINSPECT" in command.text:
        return False
    if any(STREAM.search(word) for word in told):
        return False
    if not told[0].startswith("-"):  # a file; of some programs a verb
        return name not in WITH_VERBS or "." in told[0] or told[0] == "run"
    if name in ("python", "pypy") and told[:1] == ["-m"]:
        return told[1:2] != [] and told[1] in MODULES
    at = next((at for at, word in enumerate(told) if HARMLESS.fullmatch(word) is None or is_option(name, word)), 0)
    if not is_option(name, told[at]) or at + 1 == len(told) or any(word.startswith("-") for word in told[at + 1 :]):
        return False
    return not any(RUNS_DATA.search(word) for word in told) and imports_are_known(name, told[at + 1 :])


def is_option(name: str, word: str) -> bool:
    return name in TOLD and TOLD[name].fullmatch(word) is not None


def imports_are_known(name: str, told: Sequence[str]) -> bool:
    """Return whether a program in Python takes nothing from modules that may run what they are given."""
    if name not in ("python", "pypy"):
        return True
    for module, listed in (found for text in told for found in IMPORTS.findall(text)):
        names = [module] if module else [one.partition(" as ")[0].strip() for one in listed.split(",")]
        if not IMPORTED.issuperset(names):
            return False
    return True

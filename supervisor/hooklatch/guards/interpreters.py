"""Tests of whether an interpreter gets its whole program from its words, so that its input is data.

Only a few shapes are known to read data as data.  All others may run what they read.  A program in Python is parsed,
and may use only listed names.  Programs in other languages are not parsed, so they may not have a word that runs
something.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import types
from collections.abc import Iterator, Mapping
from typing import Final

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.reading.codes import strip_version, write_out

__all__ = ["codes_of", "paths_in_code", "reads_data", "runs_nothing", "strip_version"]

# The option of an interpreter that the program follows.  An interpreter that is not here is not known.
PROGRAM_OPTIONS: Final = {
    "python": re.compile(r"-[BEIObsuv]*c"),
    "pypy": re.compile(r"-[BEIObsuv]*c"),
    "node": re.compile(r"-e|-p|-pe|--eval|--print"),
    "perl": re.compile(r"-[nplaw0-9]*[eE]"),
    "ruby": re.compile(r"-[nplaw]*e"),
}
HARMLESS: Final = re.compile(r"-[BEIObsuvnplaw0-9]+")  # options that may stand before it
MODULES: Final = frozenset({"json.tool", "base64"})  # of Python, which run nothing
IMPORTED: Final = frozenset({  # modules that a program in Python may import, which run nothing either
    "sys", "json", "re", "csv", "math", "collections", "itertools", "functools", "datetime", "time", "base64", "html",
    "hashlib", "statistics", "textwrap", "tomllib", "urllib.parse", "xml.etree.ElementTree", "pprint", "zlib", "gzip",
    "binascii", "struct", "unicodedata",
})  # fmt: skip
OF_SYS: Final = frozenset(
    {"stdin", "stdout", "stderr", "argv", "exit", "version", "version_info", "platform", "maxsize"}
)
BUILTINS: Final = frozenset({
    "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "complex", "dict", "divmod",
    "enumerate", "exit", "filter", "float", "format", "frozenset", "hash", "hex", "id", "input", "int", "isinstance",
    "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "open", "ord", "pow", "print",
    "quit", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
})  # fmt: skip
OF_FRAMES: Final = ("_", "f_", "gi_", "cr_", "ag_", "tb_", "co_", "mro")  # attributes that lead to any module
STREAM: Final = re.compile(r"/dev/(?:stdin|fd\b|tty)|/proc/|php:")
RUNS_DATA: Final = re.compile(
    r"exec|eval|compile|system|popen|open3|fork|subprocess|spawn|import_module|pickle|[Mm]arshal|Function|constructor|\bvm\b|code\."
    r"|runpy|run_path|run_module|interact|INSPECT|\bdo\b|(?<!\.)\bload\b|require(?!\(['\"](?:node:)?fs['\"]\))|include"
    r"|import\s*\(|`|\bqx|%x|\bopen\b|send\b|\bmethod\b|\bIO\b|Open3|YAML|dlopen|\bglobal|Kernel|__|modules|getattr|globals|builtins|\bvars\b|[^\w\s][gimrsx]*e[gimrsx]*e\b|inding"
)
NOT_CODE: Final = re.compile(r"[\w./-]+")  # a name of a file or of an option
CODE_FOLLOWS: Final = re.compile(r"-\w*[ecrpE]|--\w+")  # an option whose value may be code
WITH_VERBS: Final = frozenset({"deno", "bun"})
MAX_CODE: Final = 16 * 1024  # characters of a program in Python that are parsed, some 2 us each

# A file that code writes by one call; what it puts together is not seen.
IN_CODE: Final = re.compile(
    r"""open\(\s*['"]([^'"\n]+)['"]\s*,\s*(?:(?:mode\s*=\s*)?['"][rbt]*[wax+]|(?:os\.)?O_(?!RDONLY))"""
    r"""|Path\(\s*['"]([^'"\n]+)['"]\s*\)+\.(?:write|unlink|touch|rename|replace|mkdir|rmdir|chmod|open\(\s*['"][wax])"""
    r"""|(?:remove|unlink|rename|replace|chmod|rmtree|move|truncate|(?:write|append|unlink|rm)(?:File)?(?:Sync)?|File\.write"""
    r"""|file_put_contents|copyfile|symlink)\(\s*['"]([^'"\n]+)['"]"""
    r"""|\bopen\s*\(?\s*(?:my\s+)?[\w$]+\s*,\s*['"]\+?>{1,2}\s*+(?:['"]\s*,\s*['"])?([^'"\n]+)['"]"""
    r"""|>\s*"([^"\n]+)\""""
)
SECOND_IN_CODE: Final = re.compile(
    r"""(?:copy(?:(?!copy)\w)*+|rename|replace|move|link)(?:Sync)?"""
    r"""\(\s*[^,()]+,\s*['"]([^'"\n]+)['"]"""
)


def reads_data(command: Command) -> bool:
    """Return whether an interpreter gets its program from a file or its words, and reads all else as data."""
    name = strip_version(command.program or "")
    words = [word.text for word in command.arguments]
    if not words or "-" in words or {"xargs", "parallel"} & set(command.within) or "PYTHONINSPECT" in command.text:
        return False
    if any(STREAM.search(word) for word in words):
        return False
    if not words[0].startswith("-"):  # a file; of some programs a verb
        return name not in WITH_VERBS or "." in words[0] or words[0] == "run"
    if name in ("python", "pypy") and words[:1] == ["-m"]:
        return words[1:2] != [] and words[1] in MODULES
    at = next((at for at, word in enumerate(words) if HARMLESS.fullmatch(word) is None or is_option(name, word)), 0)
    if not is_option(name, words[at]) or at + 1 == len(words) or any(word.startswith("-") for word in words[at + 1 :]):
        return False
    if name in ("python", "pypy"):
        return all(map(runs_known_code, words[at + 1 : at + 2]))
    return not any(RUNS_DATA.search(word) for word in words)


def codes_of(command: Command) -> Iterator[str]:
    """Yield the texts that may be code: words that are not names of files or options, and what the command reads."""
    last = ""
    for word in command.arguments:
        if CODE_FOLLOWS.fullmatch(last) or re.match("-[^-]", word.text) or not NOT_CODE.fullmatch(word.text):
            yield word.text
        last = word.text
    yield from (redirect.target.text for redirect in command.redirects if "<<" in redirect.operator)
    if command.given is not None:
        yield command.given.text


def runs_nothing(command: Command) -> bool:
    """Return whether an interpreter's program stands in its command, and neither it nor its words start anything."""
    name = strip_version(command.program or "")
    words = [word.text for word in command.arguments]
    options = [word for word in words if word.startswith("-") and word != "-"]
    if name not in PROGRAM_OPTIONS or not "".join(words[:1] or "-").startswith("-"):
        return False
    if not all(HARMLESS.fullmatch(word) or is_option(name, word) for word in options):
        return False
    texts = [code for code in codes_of(command) if code not in options]
    if name in ("python", "pypy"):
        return all(map(runs_known_code, texts))
    return not any(map(RUNS_DATA.search, texts))


def is_option(name: str, word: str) -> bool:
    return name in PROGRAM_OPTIONS and PROGRAM_OPTIONS[name].fullmatch(word) is not None


def runs_known_code(text: str) -> bool:
    """Return whether a program in Python uses only names that are known to run no data; of a long one, False."""
    if len(text) > MAX_CODE:
        return False
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    imported = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules = {alias.asname or alias.name: alias.name for alias in imported}
    if any(modules[alias.asname or alias.name] != alias.name for alias in imported):
        return False  # one name for two of them
    own = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    own |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    bases = {name.partition(".")[0] for name in modules}
    used = {
        id(find_base_name(node))
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in modules
    }
    return all(is_harmless(node, own - bases, modules) for node in nodes if id(node) not in used)


def find_base_name(node: ast.expr) -> ast.expr:
    return find_base_name(node.value) if isinstance(node, ast.Attribute) else node


def is_harmless(node: ast.AST, own: set[str], modules: Mapping[str, str]) -> bool:
    """Return whether a part of a program is harmless; a module by itself is not, since it may be passed anywhere."""
    match node:
        case ast.Import():
            return IMPORTED.issuperset(alias.name for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            return module in IMPORTED and all(is_given(module, alias.name) for alias in node.names)
        case ast.ImportFrom():
            return False
        case ast.Attribute():
            module = modules.get(ast.unparse(node.value), "")
            return not node.attr.startswith(OF_FRAMES) and (not module or is_given(module, node.attr))
        case ast.Name(id=name, ctx=ast.Load()):
            return name in BUILTINS or is_error(name) or (name in own and not hasattr(builtins, name))
        case _:
            return True


def is_error(name: str) -> bool:
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def is_given(module: str, name: str) -> bool:
    """Return whether a name of a module is its own, and does not stand for another module."""
    if module == "sys" or module not in IMPORTED:
        return module == "sys" and name in OF_SYS
    value = getattr(importlib.import_module(module), name, None)
    return value is not None and not isinstance(value, types.ModuleType) and not name.startswith("_")


def paths_in_code(code: str) -> Iterator[str]:
    """Yield the files that code writes by one call."""
    for form in write_out(code):
        yield from (path for groups in IN_CODE.findall(form) for path in groups if path)
        yield from SECOND_IN_CODE.findall(form)

"""The commands, paths, addresses and code among the arguments of a call, by their keys or by their form.

    a shell, a file's tool     the fields of its kind: a missing command or path is a fault
    a harmless tool            nothing, by the hosts' tables and the list in the guard's file
    any other tool             each of its texts, nested too, by the key in the tables, else by the form of the text

It is unknown what a server's tool does, or one that no table has.  If its name has a verb of reading and none of
changing, it changes no file, and runs no text with an unknown key.  Files are not looked at.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec

from hooklatch.shelltext.commands import commands
from hooklatch.shelltext.reading.codes import list_code_scripts
from hooklatch.shelltext.tools import OF_HOSTS, split_names_text
from hooklatch.shelltext.words import UnreadableCommandError, is_no_path
from hooklatch_worker.author.tools import OTHER, UnclearToolError, find_tool_kind_by_name

__all__ = ["ToolCallTexts", "CommandText", "call_of", "is_harmless", "strictest"]

MAX_TEXTS = 5000  # texts of one call; a call with more is a fault
MAX_FORM = 64 * 1024  # characters of a text that may be a command by its form alone
MAX_PATH = 4096
MAX_PLACES = 20
NO_FOLDER = "the tool was called with a folder that is not a text or not a path, so it is unknown what it would change"
ODD = "the tool was called with a path that has a null or half of a character, which no file can have"

COMMAND: Final = split_names_text("""
    command commands cmd cmds cmdline commandline shellcommand bash sh chars keystrokes terminalinput shellscript
    bashcommand commandtorun commandstring runcommand
""")
# Their language is unknown.
SCRIPT: Final = frozenset(("script", "scripts", "shell", "run", "exec", "execute", "stdin"))
WORDS: Final = frozenset(("argv", "args", "arguments", "params", "parameters", "flags", "options"))
PROGRAM: Final = frozenset(("program", "executable", "binary", "bin"))
CODE: Final = frozenset(("code", "script", "source", "javascript", "python", "cell", "newsource", "sql"))
PATH: Final = split_names_text("""
    path paths file files filepath filename filenames filepaths destination dest source src target targets
    targetfile uri uris absolutepath notebookpath to from output outfile outputfile outputpath dir directory
    dirpath folder newpath oldpath location
""")
A_PATH: Final = re.compile(r"(?:path|file|filename|folder|dir|directory|uri)s?\Z")  # the end of a key that names a path
ADDRESS: Final = frozenset(("url", "urls", "href", "endpoint", "baseurl", "uri", "link"))
# Text for files and people, which is not run and not opened.
PROSE: Final = split_names_text("""
    content contents text body message messages prompt description title summary comment comments query question
    questions subject note notes thought reason reasoning todos filetext oldstr newstr oldstring newstring oldtext
    newtext old new observations explanation instruction instructions caption html markdown commitmessage
    activeform oldsource newsource insertline replacement
""")
NO_PATH: Final = (ADDRESS - {"uri"}) | {
    "selector", "ref", "branch", "sha", "pattern", "regex", "route", "owner", "repo", "element",
}  # fmt: skip
FOLDERS: Final = ("cwd", "workdir", "workingdir", "workingdirectory")
PLACES: Final = ("directory", "dir", "dirpath", "folder", "root", "basedir", "basepath", "parent")  # where, too
ACTION: Final = ("command", "action", "operation", "op", "verb", "method")
EDITORS: Final = frozenset(("str_replace_editor", "str_replace_based_edit_tool"))  # whose action says whether they read

READING: Final = split_names_text("""
    read get list ls search find fetch show describe view look check info status stat stats head tail cat grep glob tree
    exists inspect preview help lookup summarize explain lint diff compare browse peek resolve think ping version count
    query queries retrieve lookup hover definition references symbols history log logs
""")
CHANGING: Final = split_names_text("""
    write edit create move delete remove rename patch append save copy put insert replace upload update set add run exec
    execute do apply install uninstall start stop kill send post push commit merge make build modify change truncate
    clear reset drop touch mkdir rmdir chmod chown download export import generate convert extract unzip sync deploy
    eval call invoke shell bash sh terminal cmd command commands script process spawn launch store overwrite restore
    revert rm mv cp link unlink archive unarchive dump render screenshot
""")
# Words of servers and tools that type into a shell: a text that is prose to others may be a command to them.
TYPING: Final = split_names_text(
    "shell bash sh zsh terminal tmux ssh console exec execute cmd pty process keys run runner"
)
CODING: Final = split_names_text("python ipython jupyter notebook node javascript js code repl eval evaluate")
HOSTS: Final = frozenset(("host", "hostname"))
QUERYING: Final = frozenset(("query", "sql", "execute", "db", "database"))
NAMED: Final = COMMAND | SCRIPT | CODE | PATH | ADDRESS | PROSE
LOSING: Final = ("delete", "move", "remove", "rename", "rm", "mv", "unlink")
A_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

# The beginning of a command: assignments, then a name of a program, then an option, an operand or an operator.
A_COMMAND: Final = re.compile(
    r"""\s*(?:[A-Za-z_]\w*=\S*\s+|[({!]\s*|\d*>\S+\s+)*['"\\]?[a-z/~.$][\w./~+$'"\\-]*['"\\]?(?=\s|[;|&<>)]|\Z)"""
)
OF_A_LANGUAGE: Final = re.compile(  # the beginning of code of JavaScript and Python
    r"\s*(?:(?:export\s+)?(?:const|let|var|async|function|class|default)\s|import\s+[\w{*]|from\s+\w+\s+import|def\s)"
)
SIGN: Final = re.compile(r"[;|&<>`$\n]|(?:^|\s)-{1,2}[A-Za-z]")
GUARDED: Final = re.compile(
    r"(?:^|[\s;|&(`'\"/=])(?:rm|git|sh|bash|dash|zsh|curl|wget|dd|mkfs[.\w]*|shred|find|eval|sudo|chmod|chown|mv|cp|tee|pip3?"
    r"|npm|npx|uv|docker|kubectl|truncate|ln|sed|hooklatch|pkill|kill(?:all)?|reboot|shutdown|rimraf|unlink|rmdir)"
    r"(?=\s|[;|&)'\"`]|\Z)"
)
URL: Final = re.compile(r"(?:https?|wss?|ftps?)://\S+\Z", re.IGNORECASE)
PATCHED: Final = re.compile(
    r"(?m)^[^\S\n]*(?:\*\*\* (?:(?:Add|Update|Delete) File|Move to):[^\S\n]*|(?:\+\+\+|---) (?:[ab]/)?(?!/dev/null))"
    r"(\S.*?)\s*$"
)


# The kind in a payload may differ from the kind of the tool's name: the stricter one counts, so no guard is lost.
STRICTEST: Final = ("mcp", "shell", "edit", "write", "fetch", "read", "search", "subagent")


class CommandText(msgspec.Struct, frozen=True):
    """A text that is run as a command, and where; `is_sure` if its tool is a shell."""

    text: str
    folder: str
    is_sure: bool = True


class ToolCallTexts(msgspec.Struct, frozen=True):
    """The texts that a call would run, write, reach and evaluate; `fault` is the reason why they are unknown.

    `is_losing`: the call removes a path with everything below it.
    """

    begin: str
    lines: tuple[CommandText, ...] = ()
    paths: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    is_losing: bool = False
    fault: str | None = None


def strictest(answers: Iterable[Any]) -> Any:
    """Return the first answer that denies, else the first answer that is not None."""
    first_answer = None
    for answer in answers:
        if answer is not None and answer.verdict == "deny":
            return answer
        first_answer = first_answer or answer
    return first_answer


def call_of(event: Any, harmless: Sequence[str] = ()) -> ToolCallTexts:
    """Return the texts of a call to judge: none for a tool that is harmless by its host's table or by these globs."""
    begin, name = event.cwd or os.sep, str(event.tool_name)
    kinds = {event.tool_kind, find_tool_kind_by_name(name)}
    kind = next((kind for kind in STRICTEST if kind in kinds), OTHER)
    if kind not in ("mcp", OTHER):
        try:
            return read_known_call(kind, event.tool_args, begin)
        except UnclearToolError as error:
            return ToolCallTexts(begin, fault=f"{error}, so it is unknown what it would do")
    if is_harmless(event, harmless):
        return ToolCallTexts(begin)
    return read_unknown_call(strip_server(event, name), name, event.tool_input or {}, begin)


def is_harmless(event: Any, harmless: Sequence[str] = ()) -> bool:
    """Return whether a tool is one that its host brings and that touches nothing, or is among these globs."""
    name = str(event.tool_name)
    return (event.tool_kind != "mcp" and name in OF_HOSTS) or any(fnmatchcase(name, glob) for glob in harmless)


def strip_server(event: Any, name: str) -> str:
    """Return a tool's name without its server's."""
    tool = event.tool_args.get("tool") if event.tool_kind == "mcp" else None
    return tool if isinstance(tool, str) and tool else name.rpartition("__")[2]


def read_known_call(kind: str, table: Mapping[str, Any], begin: str) -> ToolCallTexts:
    cwd = table.get("cwd")
    if cwd is not None and (not isinstance(cwd, str) or is_no_path(cwd)):
        return ToolCallTexts(begin, fault=NO_FOLDER)
    folder = os.path.join(begin, os.path.expanduser(cwd or ""))
    if kind == "shell":
        text = table.get("command")
        if not isinstance(text, str):
            return ToolCallTexts(
                begin, fault="the shell tool was called without a command, so it is unknown what it would do"
            )
        return ToolCallTexts(folder, (CommandText(text, folder),))
    if kind == "fetch":
        url = table.get("url")
        if not isinstance(url, str) and not isinstance(table.get("query"), str):  # a search's service reaches no host
            return ToolCallTexts(
                begin, fault="the tool that fetches was called without a URL, so it is unknown what it would reach"
            )
        return ToolCallTexts(folder, addresses=(url,) if isinstance(url, str) else ())
    if kind not in ("write", "edit"):
        return ToolCallTexts(begin)
    paths = [path for path in (table.get("path"), *table.get("paths", ())) if path is not None]
    if not paths or not all(isinstance(path, str) for path in paths):
        return ToolCallTexts(
            begin, fault="the tool that writes was called without a path, so it is unknown what it would write"
        )
    return ToolCallTexts(begin, paths=tuple(dict.fromkeys(paths)), fault=ODD if any(map(is_no_path, paths)) else None)


def read_unknown_call(name: str, whole: str, table: Mapping[str, Any], begin: str) -> ToolCallTexts:
    """Return the texts of a call whose tool is unknown, by their keys and forms."""
    verbs, about = split_name_words(name), split_name_words(whole)
    actions = {str(table[key]).lower() for key in ACTION if isinstance(table.get(key), str)}
    if name in EDITORS or (verbs.isdisjoint(CHANGING) and actions):
        is_reading = not actions.isdisjoint(READING) and actions.isdisjoint(CHANGING)
    else:
        is_reading = verbs.isdisjoint(CHANGING) and not verbs.isdisjoint(READING)
    is_typing = not about.isdisjoint(TYPING)
    prose = frozenset[str]() if is_typing else PROSE
    texts = list(list_texts(table))
    lines: list[str] = []
    paths: list[str] = []
    addresses: list[str] = []
    codes: list[str] = []
    for key, text in texts[:MAX_TEXTS]:
        if key in COMMAND or (
            (key in SCRIPT or is_typing or not is_reading) and key not in prose and is_command(text, is_typing)
        ):
            lines.append(text)
        is_coding = not is_reading and not about.isdisjoint(CODING)
        if key in CODE or is_coding or (key == "query" and not about.isdisjoint(QUERYING)):
            codes.append(text)
            calls = (script.text for script in list_code_scripts("python", text))  # calls of most languages look alike
            lines.extend(call for call in calls if is_command(call, False))
        if key in HOSTS or (URL.match(text) and key not in PROSE):
            addresses.append(text)
        if not is_reading and key not in PROSE:
            paths += list_text_paths(key, text)
    folders = [value for key, value in table.items() if normalize_key(key) in FOLDERS and value is not None]
    if any(not isinstance(value, str) or is_no_path(value) for value in folders) and (lines or paths):
        return ToolCallTexts(begin, fault=NO_FOLDER)
    if len(texts) > MAX_TEXTS:
        return ToolCallTexts(
            begin, fault=f"the tool was called with more than {MAX_TEXTS} texts, which are too many to judge"
        )
    # Which of several folders counts is unknown, so each command and path is judged in all of them.
    named = [text for key, text in texts if key.rpartition(" ")[2] in FOLDERS]
    folder = os.path.join(begin, expand_home(named[0]) if named else "")
    named = [*named[1:], *(text for key, text in texts if key.rpartition(" ")[2] in PLACES)]
    places = list(dict.fromkeys([folder, *(os.path.join(folder, expand_home(path)) for path in named)]))
    if len(places) > MAX_PLACES and (lines or paths):
        return ToolCallTexts(
            begin, fault=f"the tool was called with more than {MAX_PLACES} folders, which are too many to judge"
        )
    if any(map(is_no_path, [*paths, *places])):
        return ToolCallTexts(begin, fault=ODD)
    return ToolCallTexts(
        folder,
        tuple(CommandText(text, place, is_sure=False) for text in dict.fromkeys(lines) for place in places),
        tuple(dict.fromkeys([*paths, *(os.path.join(place, path) for place in places[1:] for path in paths)])),
        tuple(dict.fromkeys(addresses)),
        tuple(dict.fromkeys(codes)),
        is_losing=not verbs.isdisjoint(LOSING),
    )


def expand_home(path: str) -> str:
    return path if is_no_path(path) else os.path.expanduser(path)


def split_name_words(name: str) -> set[str]:
    return {word.lower() for word in A_WORD.findall(name)}


def list_texts(arguments: object) -> Iterator[tuple[str, str]]:
    """Yield each text of an input with its plain key, and the command lines that texts beside each other make."""
    pending: list[tuple[str, object]] = [("", arguments)]
    count = 0
    while pending and count <= MAX_TEXTS:
        key, value = pending.pop()
        if isinstance(value, str):
            count += 1
            yield key, value
        elif isinstance(value, Mapping):
            fields = {normalize_key(str(name)): field for name, field in cast("Mapping[object, object]", value).items()}
            yield from (("command", line) for line in join_command_fields(fields))
            # A key that says nothing takes the key around it: {"path": {"value": ".env"}}.
            pending += [
                (name if name in NAMED or not key else f"{key} {name}", field) for name, field in fields.items()
            ]
        elif isinstance(value, list):
            items = cast("list[object]", value)
            words = [item for item in items if isinstance(item, str)]
            is_argv = key not in PROSE and len(words) == len(items) > 1 and not re.search(r"\s", words[0])
            if is_argv:
                yield key if key in COMMAND else "argv", shlex.join(words)
            if not is_argv or key not in COMMAND or key.endswith("s"):
                pending += [(key, item) for item in items]


def join_command_fields(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the command lines that a program and its words make, whose keys stand beside each other."""
    programs = [program for key in (COMMAND | PROGRAM) & fields.keys() if isinstance(program := fields[key], str)]
    for behind in [fields[key] for key in WORDS & fields.keys()]:
        if isinstance(behind, list):
            behind = shlex.join(map(str, cast("list[object]", behind)))
        yield from (f"{program} {behind}" for program in programs if isinstance(behind, str) and behind)


def normalize_key(key: str) -> str:
    """Return a key in small letters, without what joins its words: filePath, file_path and file-path are one."""
    return re.sub(r"[\W_]", "", key).lower()


def is_command(text: str, is_typing: bool) -> bool:
    """Return whether a text has the form of a command; prose and code that cannot be read as a command have not."""
    if A_COMMAND.match(text) is None:
        return False
    is_guarded = GUARDED.search(text) is not None
    if len(text) > MAX_FORM:
        return is_guarded
    try:
        script = commands(text)
    except UnreadableCommandError:
        is_code = not is_typing and OF_A_LANGUAGE.match(text) is not None
        return is_guarded and not is_code and SIGN.search(text) is not None
    return is_guarded or all(command.program is not None for command in script)


def list_text_paths(key: str, text: str) -> Iterator[str]:
    """Yield the paths that a text names: by its key, by its form, or as a patch."""
    if PATCHED.search(text) is not None and "\n" in text:
        yield from PATCHED.findall(text)
        return
    is_path_key = not PATH.isdisjoint(key.split()) or A_PATH.search(key) is not None
    if (
        not text
        or not NO_PATH.isdisjoint(key.split()[-1:])
        or (not is_path_key and (len(text) > MAX_PATH or not is_path(text)))
    ):
        return
    if text.lower().startswith("file:"):
        yield unquote(re.sub(r"\A(?i:file):(?://[^/]*)?", "", text))
    elif URL.match(text) is None:
        yield from dict.fromkeys((text, text.strip()))


def is_path(text: str) -> bool:
    """Return whether a text has the form of one path: without blanks, or with a folder that it begins in."""
    text = text.strip()
    if is_no_path(text) or "\n" in text:
        return False
    above, _, name = text.rpartition("/")
    return not re.search(r"\s", name) and (not re.search(r"\s", above) or text.startswith(("/", "~/", "./", "../")))

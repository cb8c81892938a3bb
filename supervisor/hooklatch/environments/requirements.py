"""The requirements in a file of hooks: its `# /// script` block (inline script metadata, PEP 723).  Pure.

What cannot be read as such raises RequirementsError, with the line.

Installers get each requirement as it was parsed, and never a line of a file as it stands: they could take the line for
an option or for a path.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hooklatch.processes.environment_slot import Requirements, RequirementsError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["MAX_DEPENDENCIES", "add_lock_file", "read_requirements"]

BEGIN, END = "# /// script", "# ///"
KEYS = ("requires-python", "dependencies", "tool")
MAX_DEPENDENCIES = 200
MAX_BLOCK, MAX_LINE = 64 * 1024, 6000  # characters; fires wait while the daemon parses it, and a long key takes minutes
HASH = re.compile(r"--hash=sha256:[0-9a-f]+")
NO_BUILDING = "to build a package would run its code outside of any worker, so make an environment yourself for it"


def read_requirements(code: bytes) -> Requirements | None:
    """Return the requirements of a file, None if it has no block."""
    if BEGIN.encode() not in code:
        return None
    block = find_block(code.decode("utf-8-sig", "replace").splitlines())
    if block is None:
        return None
    lines, first = block
    try:
        return validate_requirements(tomllib.loads("\n".join(lines)), first)
    except tomllib.TOMLDecodeError as error:
        raise RequirementsError(f"its `{BEGIN}` block is not TOML: {error}", first) from None
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        raise RequirementsError(f"its `{BEGIN}` block cannot be read: {error!s:.200}", first) from None


def find_block(lines: list[str]) -> tuple[list[str], int] | None:
    """Return the lines of the block, and the number of its first line."""
    begins = [number for number, line in enumerate(lines) if line.rstrip() == BEGIN]
    if not begins:
        return None
    if len(begins) > 1:
        raise RequirementsError(f"it has more than one `{BEGIN}` block; leave one", begins[1] + 1)
    content: list[str] = []
    ends: list[int] = []
    for line in lines[begins[0] + 1 :]:
        if line != "#" and not line.startswith("# "):
            break
        if line.rstrip() == END:
            ends.append(len(content))
        content.append(line[2:])
    if not ends:
        raise RequirementsError(f"its `{BEGIN}` block has no end; write `{END}` after it", begins[0] + 1)
    if sum(map(len, content), len(content)) > MAX_BLOCK or max(map(len, content), default=0) > MAX_LINE:
        text = f"its `{BEGIN}` block has over {MAX_BLOCK // 1024} KiB, or a line over {MAX_LINE} characters; shorten it"
        raise RequirementsError(text, begins[0] + 1)
    return content[: ends[-1]], begins[0] + 1


def validate_requirements(table: dict[str, Any], line: int) -> Requirements:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if unknown := [key for key in table if key not in KEYS]:
        raise RequirementsError(f"its `{BEGIN}` block has no key {unknown[0]!r}; it may have {', '.join(KEYS)}", line)
    python: object = table.get("requires-python", "")
    listed: object = table.get("dependencies", [])
    if not isinstance(python, str):
        raise RequirementsError('requires-python must be a text such as ">=3.12"', line)
    given = cast("list[object]", listed) if isinstance(listed, list) else [None]
    dependencies = [dependency for dependency in given if isinstance(dependency, str)]
    if len(dependencies) != len(given):
        raise RequirementsError('dependencies must be a list of texts such as ["httpx>=0.28"]', line)
    if len(dependencies) > MAX_DEPENDENCIES:
        raise RequirementsError(f"it has more than {MAX_DEPENDENCIES} dependencies", line)
    try:
        parsed = [parse_requirement(dependency) for dependency in dependencies]
    except NoRequirementError as error:
        raise RequirementsError(f"one of its dependencies {error}", line) from None
    try:
        names = tuple(sorted({str(dependency) for dependency in parsed}))
        requirements = Requirements(names, str(SpecifierSet(python)), read_lock_name(table, line))
    except InvalidSpecifier:
        raise RequirementsError(
            f"requires-python is not a version such as '>=3.12', but {python!r:.100}", line
        ) from None
    if requirements.lock and not parsed:
        raise RequirementsError(
            f"{requirements.lock} would lock nothing: list the packages that the hooks import in dependencies", line
        )
    requirements.admits("3.11")  # fails here, and not at a later comparison
    return requirements


class NoRequirementError(ValueError):
    """A text names no package to install; the message says why, and the caller puts the name of the text before it."""


def parse_requirement(text: str) -> Requirement:
    """Return the requirement in a text.

    Raises:
        NoRequirementError: it is not a requirement, or an installer would read more in it, or build it.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise NoRequirementError(f'is not a requirement such as "httpx>=0.28": {reason}') from None
    if not str(requirement).isprintable():  # a URL or a marker may hold line breaks, and installers read line by line
        raise NoRequirementError(f"is not a requirement on one line of printable characters: {text!r:.200}")
    if requirement.url is not None and not is_wheel(requirement.url):
        raise NoRequirementError(f"names {requirement.name} by a URL that is not a wheel (.whl); {NO_BUILDING}")
    return requirement


def is_wheel(url: str) -> bool:
    """Return whether a URL is that of a wheel: pip builds any other file that has a URL, with `--only-binary` too."""
    scheme, _, rest = url.partition("://")
    return "+" not in scheme and rest.partition("#")[0].partition("?")[0].endswith(".whl")


def read_lock_name(table: dict[str, Any], line: int) -> str:
    """Return the lock file that the block names under [tool.hooklatch], "" if none.  It ignores other tools."""
    tools: object = table.get("tool", {})
    own: object = cast("dict[str, object]", tools).get("hooklatch", {}) if isinstance(tools, dict) else None
    if not isinstance(own, dict):
        raise RequirementsError("[tool.hooklatch] must be a table", line)
    settings = cast("dict[str, object]", own)
    lock = settings.get("lock", "")
    if not isinstance(lock, str) or settings.keys() - {"lock"}:
        raise RequirementsError('[tool.hooklatch] may have lock = "guards.lock", and nothing else', line)
    if lock and (lock.startswith("/") or ".." in lock.split("/")):
        raise RequirementsError("lock must name a file beside this one, or below its folder", line)
    return lock


def add_lock_file(requirements: Requirements, data: bytes) -> Requirements:
    """Return requirements with the content of their lock file."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\\\n", " ")
    locked: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition(" #")[0].split()
        if not words or words[0].startswith("#"):
            continue
        hashes = [word for word in words if HASH.fullmatch(word)]
        try:
            if not hashes:
                raise NoRequirementError("is not a package with its --hash=sha256:…")
            requirement = parse_requirement(" ".join(word for word in words if word not in hashes))
        except NoRequirementError as error:
            remedy = f"to write one: uv pip compile --generate-hashes FILE -o {requirements.lock}"
            raise RequirementsError(f"line {number} of {requirements.lock} {error}; {remedy}", 0) from None
        locked.append(" ".join([str(requirement), *hashes]))
    if not locked:
        raise RequirementsError(f"{requirements.lock} holds no package", 0)
    return msgspec.structs.replace(requirements, locked="\n".join(locked), lock_digest=hashlib.sha256(data).hexdigest())

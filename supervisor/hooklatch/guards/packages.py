"""The packages that a command installs by name, by tables of installers.  Knows commands, no policy."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from itertools import takewhile
from typing import Final

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.words import Word

__all__ = ["INSTALLING", "IN_CODE", "packages_installed"]

# Words that may stand before such a verb: npm global add, dotnet tool install, nix profile install.
BEFORE_VERB: Final = frozenset({
    "global", "workspace", "tool", "add", "profile", "pub", "package", "extension", "extensions", "ext", "plugin",
    "krew", "collection", "role", "mcp",
})  # fmt: skip
VERSION: Final = re.compile(r"[\d.]+\Z")  # pip3, python3.12
OF_PROJECT: Final = ("-r", "--requirement", "-c", "--constraint", "-e", "--editable")  # what the project declares
# Options behind the verb that take the next word, which is not a package.
VALUED_BY_INSTALLERS: Final = {
    "pip": frozenset({
        *OF_PROJECT, "-t", "--target", "--prefix", "--root", "--timeout", "--retries", "--cache-dir", "--platform",
        "--python-version", "--progress-bar", "--log", "--only-binary", "--no-binary", "--config-settings",
    }),
    "pipenv": frozenset(OF_PROJECT),
    "npm": frozenset({"--prefix", "-C", "-w", "--workspace", "--cache", "--loglevel", "--omit", "--include"}),
    "pnpm": frozenset({"-C", "--dir", "-F", "--filter", "--loglevel"}),
    "ansible-galaxy": frozenset({*OF_PROJECT, "--role-file", "--requirements-file", "-p", "--roles-path"}),
    "cargo": frozenset({"--path", "--root", "--target-dir", "-F", "--features", "-j", "--jobs"}),
}  # fmt: skip
# Programs and verbs that run what they install, so that words behind its name are its own; options without a value.
RUNNERS: Final = frozenset({"npx", "bunx", "pnpx", "uvx"})
RUNNING: Final = frozenset({"exec", "x", "dlx", "create", "init", "innit", "run"})
FLAGS: Final = frozenset({"-y", "--yes", "-q", "--quiet", "--silent", "--bun", "-race", "--"})
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
    "go": ("install", "get", "run"), "apt": ("install",), "apt-get": ("install",), "brew": ("install", "reinstall"),
    "dnf": ("install", "in"),
    "yum": ("install",), "apk": ("add",), "pacman": ("-S", "-Sy", "-Syu"), "conda": ("install",), "mamba": ("install",),
    "deno": ("install", "add"), "nix-env": ("-i", "-iA"), "poetry": ("add",), "pdm": ("add",), "uvx": ("",),
    "composer": ("require",), "snap": ("install",), "pnpx": ("",), "rye": ("add",), "pixi": ("add",),
    **dict.fromkeys(("winget", "choco", "scoop", "conan", "vcpkg", "spack", "tlmgr", "pkg"), ("install",)),
    "emerge": ("",), "xbps-install": ("",), "code": ("--install-extension",),
    "volta": ("install",), "port": ("install",), "stack": ("install",),
    **dict.fromkeys(("yay", "paru"), ("-S", "-Sy", "-Syu")), **dict.fromkeys(("dart", "flutter"), ("add",)),
    **dict.fromkeys(("zef", "krew", "ansible-galaxy", "gh", "kubectl", "nuget"), ("install",)),
    **dict.fromkeys(("claude", "gemini", "codex", "qwen"), ("install", "add")), "sdk": ("install", "i"),
    "corepack": ("use", "install"),
    "nix": ("install", "add", "run", "shell"), "nix-shell": ("-p", "--packages"), "dotnet": ("package", "install"),
    "mix": ("archive.install",), "swift": ("add",),
}  # fmt: skip

WITH_VERB: Final = "|".join(
    rf"{re.escape(name)}[\d.]*\s[^;|&\n]*?(?<!\S)(?:{'|'.join(map(re.escape, verbs))})(?!\S)"
    for name, verbs in {**INSTALLERS, "uv": ("add", "install", "run", "tool")}.items()
    if verbs != ("",)
)
BY_NAME: Final = "|".join(name for name, verbs in INSTALLERS.items() if verbs == ("",))
IN_CODE: Final = re.compile(
    r"\binstall\.packages\(|\binstall_(?:github|gitlab|bitbucket|git|url|version|cran)\(|\bpkg_install\(|\bPkg\.add\(|\bpip\.main\(|\bpip\._internal"
)
INSTALLING: Final = re.compile(rf"(?<![\w.@-])(?:{WITH_VERB}|(?:{BY_NAME})\s+[^\s;|&])|{IN_CODE.pattern}")  # in a text


def packages_installed(command: Command) -> list[Word] | None:
    """Return what a command would install by name; an empty list if what the project declares; None if nothing."""
    name = VERSION.sub("", command.program or "")
    words = list(command.arguments)
    if name in ("python", "pypy", "py") and (at := find_module(words, "pip")):
        name, words = "pip", words[at:]
    elif name == "uv":
        if with_packages := list(command.values_of("--with")):
            return with_packages
        texts = [word.text for word in words]
        if "tool" in texts and texts[texts.index("tool") + 1 :][:1] == ["run"]:
            name, words = "uvx", words[texts.index("run") + 1 :]
        else:
            name = "pip" if {"pip", "tool"} & set(texts) else "poetry"
            words = [word for word in words if word.text not in ("pip", "tool")]
    verbs = INSTALLERS.get(name)
    if verbs is None:
        return None
    if verbs != ("",):
        begin = find_verb(words, verbs)
        if begin is None:
            return None
        is_run = words[begin].text in RUNNING
        words = words[begin + 1 :]
    else:
        is_run = name in RUNNERS
    if name == "nix":  # nix shell .#dev -c make
        words = list(takewhile(lambda word: word.text not in ("-c", "--command"), words))
    named = list_names_behind(words, VALUED_BY_INSTALLERS.get(name, frozenset[str]()))
    if is_run:
        named = take_first_package(named, words)
    if name == "go" and is_run:
        named = (word for word in named if "@" in word.text)  # go run example.com/x@v1; without, it is the project's
    return [
        word
        for word in named
        if "://" in word.text or (word.text != "." and not word.text.startswith(("./", "../", "/", ".[", ".#")))
    ]


def take_first_package(named: Iterator[Word], words: Sequence[Word]) -> Iterator[Word]:
    """Yield what is installed to be run: the first that is named, as what follows it are its own words."""
    for word in named:
        yield word
        at = next(at for at, other in enumerate(words) if other is word)
        if not at or not words[at - 1].text.startswith("-") or words[at - 1].text in FLAGS:
            return


def list_names_behind(words: Sequence[Word], valued: Container[str]) -> Iterator[Word]:
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


def find_module(words: Sequence[Word], module: str) -> int:
    """Return where the words of a Python module begin, after `-m module` or `-mmodule`; 0 if another thing runs."""
    for at, word in enumerate(words):
        if not word.text.startswith("-"):
            return at + 1 if at and word.text == module and words[at - 1].text.endswith("m") else 0
        if word.text.endswith(f"m{module}"):
            return at + 1
    return 0


def find_verb(words: Sequence[Word], verbs: Sequence[str]) -> int | None:
    """Return where the first verb stands; before it are options, which may have a value each."""
    for at, word in enumerate(words):
        if word.text in verbs:
            return at
        last = words[at - 1].text if at else ""
        if word.text.startswith(("-", "+")) or last.startswith("-"):  # +nightly
            continue
        if word.text not in BEFORE_VERB and last not in ("workspace", "add"):  # dotnet add App.csproj package
            return None
    return None

"""The table of language servers by file type, and the lookup on PATH.  Starts no program."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

__all__ = ["LANGUAGES", "LanguageEntry", "find_server", "find_language_id", "list_root_markers"]


class LanguageEntry(Struct, frozen=True):
    """The servers for some file types, best first, and the files that mark the root of a project."""

    ids: Mapping[str, str]  # extension to the protocol's language id
    servers: tuple[tuple[str, ...], ...]
    markers: tuple[str, ...] = ()


LANGUAGES: Final = (
    LanguageEntry(
        {".py": "python", ".pyi": "python"},
        (
            ("ruff", "server"),
            ("pylsp",),
            ("pyright-langserver", "--stdio"),
            ("basedpyright-langserver", "--stdio"),
        ),
        ("pyproject.toml", "ruff.toml", ".ruff.toml", "pyrightconfig.json", "setup.cfg", "setup.py"),
    ),
    LanguageEntry(
        {
            ".ts": "typescript",
            ".mts": "typescript",
            ".cts": "typescript",
            ".tsx": "typescriptreact",
            ".js": "javascript",
            ".mjs": "javascript",
            ".cjs": "javascript",
            ".jsx": "javascriptreact",
        },
        (("typescript-language-server", "--stdio"), ("vtsls", "--stdio"), ("deno", "lsp")),
        ("tsconfig.json", "jsconfig.json", "package.json", "deno.json"),
    ),
    LanguageEntry({".go": "go"}, (("gopls",),), ("go.work", "go.mod")),
    LanguageEntry({".rs": "rust"}, (("rust-analyzer",),), ("Cargo.toml", "rust-project.json")),
    LanguageEntry(
        {
            ".c": "c",
            ".h": "c",
            ".cc": "cpp",
            ".cpp": "cpp",
            ".cxx": "cpp",
            ".hh": "cpp",
            ".hpp": "cpp",
            ".m": "objective-c",
        },
        (("clangd",), ("ccls",)),
        ("compile_commands.json", "compile_flags.txt", ".clangd"),
    ),
    LanguageEntry(
        {".ex": "elixir", ".exs": "elixir"},
        (("elixir-ls",), ("expert", "--stdio"), ("lexical",), ("nextls", "--stdio")),
        ("mix.exs",),
    ),
    LanguageEntry({".erl": "erlang", ".hrl": "erlang"}, (("elp", "server"), ("erlang_ls",)), ("rebar.config",)),
    LanguageEntry({".gleam": "gleam"}, (("gleam", "lsp"),), ("gleam.toml",)),
    LanguageEntry({".lua": "lua"}, (("lua-language-server",),), (".luarc.json",)),
    LanguageEntry({".rb": "ruby"}, (("ruby-lsp",), ("solargraph", "stdio")), ("Gemfile",)),
    LanguageEntry({".php": "php"}, (("phpactor", "language-server"), ("intelephense", "--stdio")), ("composer.json",)),
    LanguageEntry({".java": "java"}, (("jdtls",),), ("pom.xml", "build.gradle", "build.gradle.kts")),
    LanguageEntry({".kt": "kotlin", ".kts": "kotlin"}, (("kotlin-language-server",),), ("build.gradle.kts", "pom.xml")),
    LanguageEntry({".cs": "csharp"}, (("csharp-ls",), ("OmniSharp", "-lsp")), ("Directory.Build.props",)),
    LanguageEntry({".swift": "swift"}, (("sourcekit-lsp",),), ("Package.swift",)),
    LanguageEntry({".zig": "zig"}, (("zls",),), ("build.zig",)),
    LanguageEntry({".hs": "haskell"}, (("haskell-language-server-wrapper", "--lsp"),), ("cabal.project", "stack.yaml")),
    LanguageEntry({".ml": "ocaml", ".mli": "ocaml.interface"}, (("ocamllsp",),), ("dune-project",)),
    LanguageEntry({".scala": "scala"}, (("metals",),), ("build.sbt",)),
    LanguageEntry({".dart": "dart"}, (("dart", "language-server"),), ("pubspec.yaml",)),
    LanguageEntry({".nix": "nix"}, (("nixd",), ("nil",)), ("flake.nix",)),
    LanguageEntry({".tf": "terraform"}, (("terraform-ls", "serve"),), (".terraform",)),
    LanguageEntry({".sh": "shellscript", ".bash": "shellscript"}, (("bash-language-server", "start"),)),
    LanguageEntry({".json": "json", ".jsonc": "jsonc"}, (("vscode-json-language-server", "--stdio"),)),
    LanguageEntry({".yaml": "yaml", ".yml": "yaml"}, (("yaml-language-server", "--stdio"),)),
    LanguageEntry({".toml": "toml"}, (("taplo", "lsp", "stdio"), ("tombi", "lsp"))),
    LanguageEntry({".html": "html"}, (("vscode-html-language-server", "--stdio"),)),
    LanguageEntry({".css": "css", ".scss": "scss", ".less": "less"}, (("vscode-css-language-server", "--stdio"),)),
    LanguageEntry({".vue": "vue"}, (("vue-language-server", "--stdio"),), ("package.json",)),
    LanguageEntry({".svelte": "svelte"}, (("svelteserver", "--stdio"),), ("package.json",)),
)

BY_EXTENSION: Final = {extension: language for language in LANGUAGES for extension in language.ids}
UNKNOWN: Final = LanguageEntry({}, ())


def find_language(extension: str) -> LanguageEntry:
    return BY_EXTENSION.get(extension, UNKNOWN)


def find_language_id(extension: str) -> str:
    """Return the protocol's language id for an extension; for unknown ones the extension itself."""
    return find_language(extension).ids.get(extension, extension.removeprefix("."))


def list_root_markers(extension: str) -> tuple[str, ...]:
    """Return the files that mark the root of a project with this extension."""
    return find_language(extension).markers


def find_server(extension: str, overrides: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """Return the command of the first server for this extension on PATH, or None.

    An override replaces the table's servers; an empty one disables the extension.
    """
    override = overrides.get(extension)
    candidates = find_language(extension).servers if override is None else (tuple(override),)
    for command in candidates:
        program = shutil.which(command[0]) if command else None
        if program is not None:
            return program, *command[1:]
    return None

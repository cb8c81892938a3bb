"""Which language servers handle which files: a table, and the lookup on PATH.  Does not start anything."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

__all__ = ["LANGUAGES", "Language", "find_server", "language_id", "markers_of"]


class Language(Struct, frozen=True):
    """The servers for some file types, best first, and the files that mark the root of a project."""

    ids: Mapping[str, str]  # extension to the protocol's language id
    servers: tuple[tuple[str, ...], ...]
    markers: tuple[str, ...] = ()


LANGUAGES: Final = (
    Language(
        {".py": "python", ".pyi": "python"},
        (
            ("ruff", "server"),
            ("pylsp",),
            ("pyright-langserver", "--stdio"),
            ("basedpyright-langserver", "--stdio"),
        ),
        ("pyproject.toml", "ruff.toml", ".ruff.toml", "pyrightconfig.json", "setup.cfg", "setup.py"),
    ),
    Language(
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
    Language({".go": "go"}, (("gopls",),), ("go.work", "go.mod")),
    Language({".rs": "rust"}, (("rust-analyzer",),), ("Cargo.toml", "rust-project.json")),
    Language(
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
    Language(
        {".ex": "elixir", ".exs": "elixir"},
        (("elixir-ls",), ("expert", "--stdio"), ("lexical",), ("nextls", "--stdio")),
        ("mix.exs",),
    ),
    Language({".erl": "erlang", ".hrl": "erlang"}, (("elp", "server"), ("erlang_ls",)), ("rebar.config",)),
    Language({".gleam": "gleam"}, (("gleam", "lsp"),), ("gleam.toml",)),
    Language({".lua": "lua"}, (("lua-language-server",),), (".luarc.json",)),
    Language({".rb": "ruby"}, (("ruby-lsp",), ("solargraph", "stdio")), ("Gemfile",)),
    Language({".php": "php"}, (("phpactor", "language-server"), ("intelephense", "--stdio")), ("composer.json",)),
    Language({".java": "java"}, (("jdtls",),), ("pom.xml", "build.gradle", "build.gradle.kts")),
    Language({".kt": "kotlin", ".kts": "kotlin"}, (("kotlin-language-server",),), ("build.gradle.kts", "pom.xml")),
    Language({".cs": "csharp"}, (("csharp-ls",), ("OmniSharp", "-lsp")), ("Directory.Build.props",)),
    Language({".swift": "swift"}, (("sourcekit-lsp",),), ("Package.swift",)),
    Language({".zig": "zig"}, (("zls",),), ("build.zig",)),
    Language({".hs": "haskell"}, (("haskell-language-server-wrapper", "--lsp"),), ("cabal.project", "stack.yaml")),
    Language({".ml": "ocaml", ".mli": "ocaml.interface"}, (("ocamllsp",),), ("dune-project",)),
    Language({".scala": "scala"}, (("metals",),), ("build.sbt",)),
    Language({".dart": "dart"}, (("dart", "language-server"),), ("pubspec.yaml",)),
    Language({".nix": "nix"}, (("nixd",), ("nil",)), ("flake.nix",)),
    Language({".tf": "terraform"}, (("terraform-ls", "serve"),), (".terraform",)),
    Language({".sh": "shellscript", ".bash": "shellscript"}, (("bash-language-server", "start"),)),
    Language({".json": "json", ".jsonc": "jsonc"}, (("vscode-json-language-server", "--stdio"),)),
    Language({".yaml": "yaml", ".yml": "yaml"}, (("yaml-language-server", "--stdio"),)),
    Language({".toml": "toml"}, (("taplo", "lsp", "stdio"), ("tombi", "lsp"))),
    Language({".html": "html"}, (("vscode-html-language-server", "--stdio"),)),
    Language({".css": "css", ".scss": "scss", ".less": "less"}, (("vscode-css-language-server", "--stdio"),)),
    Language({".vue": "vue"}, (("vue-language-server", "--stdio"),), ("package.json",)),
    Language({".svelte": "svelte"}, (("svelteserver", "--stdio"),), ("package.json",)),
)

BY_EXTENSION: Final = {extension: language for language in LANGUAGES for extension in language.ids}
UNKNOWN: Final = Language({}, ())


def language_of(extension: str) -> Language:
    return BY_EXTENSION.get(extension, UNKNOWN)


def language_id(extension: str) -> str:
    """Return the protocol's language id for an extension; for unknown ones the extension itself."""
    return language_of(extension).ids.get(extension, extension.removeprefix("."))


def markers_of(extension: str) -> tuple[str, ...]:
    """Return the files that mark the root of a project with this extension."""
    return language_of(extension).markers


def find_server(extension: str, overrides: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """Return the command of the first server for this extension on PATH, or None.

    An override replaces the table's servers; an empty one disables the extension.
    """
    override = overrides.get(extension)
    candidates = language_of(extension).servers if override is None else (tuple(override),)
    for command in candidates:
        program = shutil.which(command[0]) if command else None
        if program is not None:
            return program, *command[1:]
    return None

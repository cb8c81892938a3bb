"""The files of each program that only root can write, by system: the one table of them.

The system is an argument, so each row can be read on any machine.  Where it is not known that a program has such files,
that is said: it is never taken for a program that has none.

The paths of macOS are from the programs themselves:

- Claude Code 2.1.330 and Codex 0.169.0: their packages for macOS (darwin-arm64).
- Gemini CLI 0.61.0, Qwen Code 0.24.4, Auggie 0.36.0, Letta Code 0.32.18, Kimi Code 2.1.0: packages for all systems.
- OpenCode 1.18.33, Droid 0.225.2, Cline 3.0.65: their packages for Linux, whose code names the paths of every system.
- Grok 1.0.41: the documentation in its package for Linux.  Copilot CLI and Cursor: the vendors' documentation of hooks.
- Goose 1.52.0 is compiled for one system, and only its package for Linux could be had: not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from hooklatch_worker.systems import PLATFORM

__all__ = ["MACHINE_FILES", "NONE", "SYSTEM_FOLDERS", "TITLES", "MachineFiles", "System", "name_system"]

System: TypeAlias = Literal["linux", "darwin"]
TITLES: Final[Mapping[System, str]] = MappingProxyType({"linux": "Linux", "darwin": "macOS"})
# Programs of the system: they change with its updates, and an agent cannot write them.  A Mac's /usr/local is a user's.
SYSTEM_FOLDERS: Final[Mapping[System, tuple[str, ...]]] = MappingProxyType(
    {
        "linux": ("/usr/", "/bin/", "/sbin/", "/lib"),
        "darwin": ("/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/bin/", "/sbin/", "/System/"),
    }
)


@dataclass(frozen=True, slots=True)
class MachineFiles:
    """A program's files that only root can write, on one system.

    `ours` is the one that hooklatch writes, "" if the program has none or `is_known` is false; `beside` is another one,
    where other hooks are turned off.  `read` are the globs of all in which the program looks for hooks, or for what
    turns them off; {user} stands for the name of the user.
    """

    ours: str = ""
    read: tuple[str, ...] = ()
    is_known: bool = True
    beside: str = ""


def below(folder: str, ours: str, *more: str, domain: str = "", beside: str = "") -> MachineFiles:
    """Return the files of a program in its folder, and, on a Mac, those of a domain that a device's profile sets."""
    profiles = [f"/Library/Managed Preferences/{place}{domain}.plist" for place in ("{user}/", "") if domain]
    read = (*(f"{folder}/{name}" for name in (more or (ours,))), *profiles)
    return MachineFiles(f"{folder}/{ours}", read, beside=f"{folder}/{beside}" if beside else "")


SUPPORT: Final = "/Library/Application Support"
NONE: Final = MachineFiles()
SETTINGS: Final = "managed-settings.json"
CLAUDE: Final = (SETTINGS, SETTINGS, "managed-settings.d/*.json")
CODEX: Final = ("requirements.toml", "requirements.toml", "managed_config.toml", "config.toml", "hooks.json")
GEMINI: Final = ("settings.json", "settings.json", "system-defaults.json")  # and Qwen Code, which was made of it
COPILOT: Final = ("policy.d/hooklatch.json", "policy.d/*.json")
GROK: Final = ("requirements.toml", "requirements.toml", "managed_config.toml")
OPENCODE: Final = ("opencode.json", "opencode.json*")
# The same on every system.
EVERYWHERE: Final[Mapping[str, MachineFiles]] = MappingProxyType(
    {
        "auggie": below("/etc/augment", "settings.json"),
        "kimi": NONE,
        "letta": NONE,
        "cline": NONE,
    }
)
MACHINE_FILES: Final[Mapping[System, Mapping[str, MachineFiles]]] = MappingProxyType(
    {
        "linux": {
            **EVERYWHERE,
            "claude-code": below("/etc/claude-code", *CLAUDE),
            "codex": below("/etc/codex", *CODEX),
            "gemini": below("/etc/gemini-cli", *GEMINI),
            "copilot": below("/etc/github-copilot", *COPILOT, SETTINGS, beside=SETTINGS),
            "cursor": below("/etc/cursor", "hooks.json"),
            "opencode": below("/etc/opencode", *OPENCODE),
            "qwen": below("/etc/qwen-code", *GEMINI),
            "grok": below("/etc/grok", *GROK),
            "droid": below("/etc/factory", "settings.json"),
            "goose": NONE,
        },
        "darwin": {
            **EVERYWHERE,
            "claude-code": below(f"{SUPPORT}/ClaudeCode", *CLAUDE, domain="com.anthropic.claudecode"),
            "codex": below("/etc/codex", *CODEX, domain="com.openai.codex"),
            "gemini": below(f"{SUPPORT}/GeminiCli", *GEMINI),
            "copilot": below("/etc/github-copilot", *COPILOT),  # where it has managed settings is not known
            "cursor": below(f"{SUPPORT}/Cursor", "hooks.json"),
            "opencode": below(f"{SUPPORT}/opencode", *OPENCODE, domain="ai.opencode.managed"),
            "qwen": below(f"{SUPPORT}/QwenCode", *GEMINI),
            "grok": below("/etc/grok", *GROK, domain="ai.x.grok"),
            "droid": below(f"{SUPPORT}/Factory", "settings.json"),
            "goose": MachineFiles(is_known=False),
        },
    }
)


def name_system(platform: str = PLATFORM) -> System:
    """Return the row for a platform as Python names it, by default this one."""
    return "darwin" if platform == "darwin" else "linux"

"""Git repositories of guards, made by the program git."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

__all__ = ["GuardAuthors", "cases_of", "guard_of"]


def guard_of(name: str, *programs: str, more: str = "") -> str:
    """Return a guard that refuses commands which begin with one of these words."""
    listed = "".join(f"    {program!r},\n" for program in programs)
    return (
        f'"""Refuse {name}."""\n\nfrom hooklatch import deny, hook\n{more}\nREFUSED = (\n{listed})\n\n\n'
        f'@hook("pre_tool_use", match="shell")\ndef {name}(event):\n'
        '    return deny("not here") if event.command.startswith(REFUSED) else None\n'
    )


def cases_of(*programs: str, passing: str = "ls") -> str:
    cases = [(program, "deny") for program in programs] + [(passing, "pass")]
    return "".join(
        json.dumps({
            "name": command, "event": "pre_tool_use", "expect": expect,
            "payload": {"tool_name": "Bash", "tool_input": {"command": command}},
        }) + "\n"
        for command, expect in cases
    )  # fmt: skip


class GuardAuthors:
    """Those who publish guards: a repository with a work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str, stdin: bytes = b"") -> str:
        people = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *words], cwd=self.folder, input=stdin, capture_output=True, check=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder.parent), "GIT_CONFIG_NOSYSTEM": "1", **people},
        )  # fmt: skip
        return done.stdout.decode().strip()

    def publish(self, tag: str, files: dict[str, str | Path | None]) -> str:
        """Commit files under a tag, also one that exists; a path is a link to it, and None removes."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            if path.is_symlink() or path.exists():
                path.unlink()
            if isinstance(content, Path):
                path.symlink_to(content)
            elif content is not None:
                path.write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", tag)
        self.git("tag", "--force", "--annotate", "--message", tag, tag)
        return self.git("rev-parse", "HEAD")

    def sign(self, tag: str, key: Path, what: str = "HEAD") -> None:
        """Have a tag, also one that exists, be signed by an SSH key, which is made if it is not there."""
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        settings = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={key}")
        self.git(*settings, "tag", "--force", "--sign", "--message", tag, tag, what)

    def at(self, rev: str) -> str:
        return f"{self.folder}@{rev}"

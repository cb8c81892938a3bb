"""The programs at their interactive screens: how each is started there, and what of a screen is kept as text.

`python tests/real_hosts/screens.py [NAME...]` plays the programs that are here and writes their screens into screens/.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from real_hosts.guarded import guarded
from real_hosts.hosts.claude_code import ClaudeCode
from real_hosts.hosts.codex import Codex
from real_hosts.hosts.copilot import Copilot
from real_hosts.hosts.gemini import Gemini
from real_hosts.hosts.host import Host, Place
from real_hosts.hosts.opencode import OpenCode
from real_hosts.hosts.qwen import Qwen
from real_hosts.model.conversation import Turn, opening
from real_hosts.rows import make
from real_hosts.terminal import BLINKING
from real_hosts.theatre import Outcome, Stage, on_stage, why_there_is_no_namespace
from support.commands import serving
from support.repository import TESTS

__all__ = ["CASES", "SCENES", "Scene", "kept_screen", "play_screen", "play_steps", "why_there_is_no_terminal"]

FOLDER = TESTS / "real_hosts" / "screens"
# What a guard does, or that there is no daemon: the rows of the table that a person and a model are told of.
CASES = ("deny", "ask", "raise", "no_daemon")
DONE = "All done."  # the model's last words


@dataclass(frozen=True)
class Scene:
    """A program at a terminal: the words of its command, and the text by which it shows that it can be typed to.

    `settle` writes what a person's home holds so that it asks nothing else first.  `ends` has, by case, the text that
    its screen ends with where that is not the model's last words.  `then` is waited for after that.
    """

    host: Host
    words: Sequence[str]
    ready: str
    settle: Callable[[Place], None] = lambda place: None
    ends: dict[str, str] = field(default_factory=dict)
    then: Sequence[dict[str, str]] = ()


def settle_claude_code(place: Place) -> None:
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    place.add(
        ".claude.json", hasCompletedOnboarding=True, projects={str(place.project): project},
        customApiKeyResponses={"approved": ["none"], "rejected": []},
    )  # fmt: skip


def settle_codex(place: Place) -> None:
    path = place.home / ".codex/config.toml"
    path.write_text(path.read_text() + f'\n[projects."{place.project}"]\ntrust_level = "trusted"\n')


def settle_copilot(place: Place) -> None:
    place.add(".copilot/config.json", trusted_folders=[str(place.project)], trustedFolders=[str(place.project)])


NOBODY = "hooklatch refused this prompt"
ASKED = "asked by ask_guard"
TOAST = "┃ hooklatch ┃"
SCENES = {
    scene.host.name: scene
    for scene in (
        Scene(
            ClaudeCode(), ["--permission-mode", "default"], "for shortcuts", settle_claude_code,
            {"ask": ASKED, "no_daemon": NOBODY},
        ),
        Scene(Codex(), ["--sandbox", "danger-full-access"], "Ask Codex", settle_codex, {"no_daemon": NOBODY}),
        Scene(
            Gemini(), ["--yolo", "-m", "gemini-2.5-flash"], "Type your message",
            ends={"ask": ASKED, "no_daemon": NOBODY},
        ),
        Scene(Qwen(), ["--yolo", "--auth-type", "openai"], "Type your message", ends={"no_daemon": NOBODY}),
        # A notice beside the call for half a minute, whose title may go first. A note stays once the turn ends.
        Scene(
            OpenCode(), [], "Ask anything", ends=dict.fromkeys(CASES, TOAST),
            then=[{"wait": DONE}, {"wait": "Not run: bash"}, {"gone": TOAST}, {"gone": "Run: ┃"}],
        ),
        Scene(
            Copilot(), ["--allow-all-tools", "--allow-all-paths", "--no-color"], "/ commands", settle_copilot,
            {"ask": ASKED},
        ),
    )
}  # fmt: skip


def why_there_is_no_terminal() -> str:
    """Return why no program can be played at a terminal here; nothing if one can."""
    return "" if shutil.which("tmux") else "there is no tmux on the PATH"


def play_screen(scene: Scene, stage: Stage, case: str) -> tuple[str, Outcome]:
    """Play one case, and return the screen at its end, as it was painted."""
    host = scene.host
    with guarded(host, stage) as it, nullcontext() if case == "no_daemon" else serving(it.ground):
        steps = [
            {"wait": scene.ready}, {"type": opening("main")}, {"wait": scene.ends.get(case, DONE)},
            *scene.then,
        ]  # fmt: skip
        outcome = play_steps(scene, stage, it.place, steps, [[make(host, it.place, case)]])
        return outcome.stdout.replace(str(it.place.folder), "/PLACE"), outcome


def play_steps(
    scene: Scene, stage: Stage, place: Place, steps: Sequence[dict[str, str]], turns: Sequence[Turn]
) -> Outcome:
    """Play these steps at the program's screen, which is the output at the end, while the model plays these turns."""
    scene.settle(place)
    script = place.folder / "steps.json"
    script.write_text(json.dumps({"steps": steps, "argv": [*scene.host.program.argv, *scene.words]}))
    _, environment = scene.host.start(place, "")
    outcome = stage.play(
        [sys.executable, "-m", "real_hosts.terminal", str(script)], folder=place.folder, cwd=place.project,
        env={**environment, "PYTHONPATH": str(TESTS)}, plays={"main": turns}, patience=600,
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.stdout + outcome.stderr
    return outcome


# What no two runs have in common: times, versions, tips, what a program says of its terminal or of its updates.
VOLATILE = re.compile(
    r"(?:worked for|churned|baked|brewed|cooked|tip:|tips:|update|extensions changed|focus-events|ripgrep|/x64-linux/"
    r"|falling back to built-in|/effort|warning|working|open sidebar|for shortcuts"
    r"|\d+(?:\.\d+)?m?s\b|read context files|see full|\Afake default ·|\A\* )",
    re.IGNORECASE,
)
FRAMES = re.compile(r"[─━═│┃║╭╮╰╯┌┐└┘╹▀▄█▝▘▗▖▐▌▛▜▙▟⣀-⣿⠀-⢿]+")

CLOCK = re.compile(r"\b\d?\d:\d\d\b(?: [AP]M)?")
BEGINS = re.compile("hooklatch (is|refused)|" + re.escape(opening("main")))


def kept_screen(screen: str) -> str:
    """Return the lines of a screen that say something, from the prompt or what is said before it on."""
    still = screen.replace(BLINKING, " ")
    lines = [" ".join(CLOCK.sub(" ", FRAMES.sub(" ", line)).split()) for line in still.splitlines()]
    begin = next((number for number, line in enumerate(lines) if BEGINS.search(line)), 0)
    kept = [line for line in lines[begin:] if re.search(r"\w", line) and not VOLATILE.search(line)]
    return "\n".join(kept) + "\n"


def main(names: Sequence[str]) -> int:
    """Play the programs, and write their screens."""
    if reason := why_there_is_no_terminal() or why_there_is_no_namespace():
        sys.stderr.write(f"{reason}\n")
        return 1
    with on_stage() as stage:
        for scene, case in list_plays(names or tuple(SCENES)):
            screen, _ = play_screen(scene, stage, case)
            path = FOLDER / f"{scene.host.name}.{case}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(kept_screen(screen))
            sys.stdout.write(f"==== {path.name}\n{screen}\n")
            sys.stdout.flush()
    return 0


def list_plays(names: Sequence[str]) -> Iterator[tuple[Scene, str]]:
    for name in names:
        scene = SCENES[name]
        if not scene.host.program.why_not:
            yield from ((scene, case) for case in CASES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

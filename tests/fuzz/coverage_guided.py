"""Fuzzes the same targets guided by coverage, with atheris: `make fuzz`, or by hand

    .venv/bin/python -m pip install '.[fuzz]'
    .venv/bin/python tests/fuzz/coverage_guided.py TARGET [--seconds N] [--corpus FOLDER] [INPUT ...]

Without a target, each is run in turn.  What was found to break is written beside the corpus; given as INPUT, it is run
again.  Atheris needs to rewrite the modules as they are imported, so it comes before all of ours.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 120
MAX_INPUT = 8192  # bytes
MAX_RESIDENT = 1024  # MiB; more than that for 8 KiB is a finding
SLOW = 10  # seconds for one input, which is a finding too


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", nargs="?")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--corpus", type=Path, help="kept from run to run; else a temporary folder")
    parser.add_argument("inputs", nargs="*")
    wanted = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    if wanted.target is None:
        return run_each(wanted.seconds, wanted.corpus)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        run(wanted.target, wanted.seconds, wanted.corpus or Path(folder), wanted.inputs)
    return 0


def run_each(seconds: int, corpus: Path | None) -> int:
    """Run every target in a process of its own, since libFuzzer ends the one that it runs in."""
    from fuzz.targets import TARGETS

    broken: list[str] = []
    for name in TARGETS:
        print(f"== {name}", flush=True)  # noqa: T201
        command = [sys.executable, __file__, name, "--seconds", str(seconds)]
        if corpus is not None:
            command += ["--corpus", str(corpus)]
        if subprocess.run(command, check=False).returncode:
            broken.append(name)
    if broken:
        print(f"broken: {', '.join(broken)}")  # noqa: T201
    return 1 if broken else 0


def run(name: str, seconds: int, corpus: Path, inputs: list[str]) -> None:
    import atheris  # pyright: ignore[reportMissingImports]

    with atheris.instrument_imports(include=["hooklatch", "hooklatch_worker"]):
        from fuzz.seeds import NASTY, seeds_of, words
        from fuzz.targets import TARGETS
    folder = corpus / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate((*seeds_of(name), *NASTY)):
        (folder / f"seed-{number}").write_bytes(seed[:MAX_INPUT])
    dictionary = corpus / f"{name}.dict"
    dictionary.write_text("".join(f'"{escaped(word)}"\n' for word in words(name) if 1 < len(word) <= 40))
    arguments = [
        f"-max_total_time={seconds}", f"-max_len={MAX_INPUT}", f"-rss_limit_mb={MAX_RESIDENT}", f"-timeout={SLOW}",
        f"-dict={dictionary}", f"-artifact_prefix={corpus}/{name}-", "-print_final_stats=1", "-verbosity=0",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *arguments, *(inputs or [str(folder)])], TARGETS[name])
    atheris.Fuzz()


def escaped(word: bytes) -> str:
    return "".join(chr(byte) if 32 < byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    sys.exit(main())

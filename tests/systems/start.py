"""Runs `hooklatch` as on a portable system: start.py KERNEL WORDS...

KERNEL is the path of a `KernelServer`.  The calls that Linux alone has are taken from this process before anything of
the daemon is imported, and the portable modules are put in the place of Linux's, here and in each guardian.
"""

from __future__ import annotations

import os
import resource
import sys

OPEN_FILES = 1024  # without /proc, the descriptors that a program must not inherit are closed one by one
IMPORT = "from hooklatch_worker.runtime import guardian\n"


def choose(kernel: str) -> None:
    """Put the portable module in the place of Linux's, in a process that has imported no other of ours."""
    from hooklatch_worker import systems
    from systems.stand_in import RemoteKernel, StandInSystem

    systems.system = StandInSystem(RemoteKernel(kernel))  # type: ignore[assignment]


def choose_disks() -> None:
    """Put the functions for files in the place of Linux's; no disk of this machine is away."""
    from hooklatch_worker.systems import darwin_disks, disks

    darwin_disks.away_now = dict  # type: ignore[assignment]
    for name in disks.__all__:
        setattr(disks, name, getattr(darwin_disks, name))


def main() -> None:
    """Run a command."""
    from systems.lean_kernel import hide_folders, refuse_calls

    kernel, *words = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    hide_folders()
    refuse_calls()
    choose(kernel)
    choose_disks()
    from hooklatch.cli import main as run
    from hooklatch.processes import guardian

    assert IMPORT in guardian.GUARDIAN
    chosen = f"from systems.start import choose\nchoose({kernel!r})\n{IMPORT}"
    guardian.GUARDIAN = guardian.GUARDIAN.replace(IMPORT, chosen)
    sys.argv = ["hooklatch", *words]
    sys.exit(run())


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    main()

"""The calls that differ by operating system, behind the same names: processes here, files and clocks in `disks`.

These two modules alone ask which system this is.  Knows no hooks and no verdicts.
"""

import sys

if sys.platform == "linux":
    from hooklatch_worker.systems import linux as system
else:
    from hooklatch_worker.systems.darwin import system

PLATFORM = sys.platform  # as Python names it, for commands that look for other programs' files

__all__ = ["PLATFORM", "system"]

"""The choice of what the daemon needs of its system for files: mounts, reports, durability, clocks.  For no worker."""

import sys

if sys.platform == "linux":
    from hooklatch_worker.systems import linux_disks as chosen
    from hooklatch_worker.systems.linux_watches import FileWatches
else:
    from hooklatch_worker.systems import darwin_disks as chosen
    from hooklatch_worker.systems.darwin_watches import DarwinWatches as FileWatches

__all__ = [
    "FileWatches", "allocate_blocks", "away_now", "is_plain", "read_boot_id", "read_boot_time", "read_real_path",
    "sync_all", "sync_data",
]  # fmt: skip

# Bound once: a fire looks at paths.
allocate_blocks, away_now, is_plain = chosen.allocate_blocks, chosen.away_now, chosen.is_plain
read_boot_id, read_boot_time = chosen.read_boot_id, chosen.read_boot_time
read_real_path, sync_all, sync_data = chosen.read_real_path, chosen.sync_all, chosen.sync_data

"""Disks, and other devices below /dev: which commands write to one, and which are given one."""

from __future__ import annotations

import re
from typing import Final

from hooklatch.guards.paths.paths import PathResolver, PlacedPath
from hooklatch.guards.paths.patterns import may_be
from hooklatch.guards.targets import paths_written
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.words import Word

__all__ = ["formats_disk", "is_taking_disk", "is_writing_device"]

# What a program may write to below /dev; all else there is a disk, the memory, or another device.
WRITABLE: Final = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/stdin", "/dev/stdout",
    "/dev/stderr", "/dev/fd", "/dev/pts", "/dev/shm", "/dev/tcp", "/dev/udp", "/dev/console", "/dev/ptmx", "/dev/log",
)  # fmt: skip
KERNEL: Final = ("/proc/sysrq-trigger", "/sys/power", "/sys/firmware")  # what is written there, the kernel does
DISKS: Final = re.compile(
    r"r?(?:sd|hd|vd|xvd|dasd)[a-z*?\[].*|r?disk.*|block|mapper|mem|kmem|port"
    r"|(?:nvme|mmcblk|md|dm-|loop|nbd|sr|sg|st|nst|bsg|zd|ram|pmem|bcache|drbd|rbd|ubi|mtd)[/\d*?\[].*|bsg"
)
# Programs that make a disk anew, by how their names begin.
FORMATTING: Final = (
    "mkfs", "wipefs", "fdisk", "sfdisk", "cfdisk", "gdisk", "sgdisk", "cgdisk", "parted", "blkdiscard", "mke2fs",
    "mkswap", "mkntfs", "mkdosfs", "mkexfatfs", "mkreiserfs", "newfs", "sg_format", "sg_sanitize", "sg_write_same",
    "sg_unmap", "nwipe", "zerofree", "testdisk", "flash_erase", "badblocks",
)  # fmt: skip
ONLY_WITH: Final = {"badblocks": ("-w", "-n")}  # these do so with one of these options alone
LOOKING: Final = frozenset({  # programs that only look at a disk, or write to their last word alone
    "lsblk", "blkid", "file", "ls", "stat", "mount", "umount", "df", "cat", "head", "tail", "smartctl", "findmnt",
    "readlink", "realpath", "test", "[", "[[", "echo", "printf", "grep", "hexdump", "xxd", "od", "udevadm", "iostat",
    "dd", "cp", "du", "sha256sum", "md5sum", "cmp", "lsof", "fuser", "losetup", "sync", "docker", "podman", "swapon",
    "tune2fs", "dumpe2fs",
})  # fmt: skip


def is_writing_device(command: Command, paths: PathResolver) -> bool:
    """Return whether a command writes to a disk, the memory, or another device."""
    return any(is_device(paths.changed(word, command)) for word in paths_written(command))


def formats_disk(command: Command) -> bool:
    """Return whether a command makes a disk anew, whichever it names."""
    name = command.program or ""
    is_meant = name.startswith(FORMATTING) and (name not in ONLY_WITH or command.has_option(*ONLY_WITH[name]))
    return is_meant and not is_showing_only(command)


def is_showing_only(command: Command) -> bool:
    """Return whether a program for disks is told to show something, and nothing else."""
    is_making = (command.program or "").startswith("mk")  # to which -l is a list of blocks
    shown = {"--help", "--version"} if is_making else {"--help", "--version", "-l", "--list"}
    options = [word.text for word in command.arguments if word.text.startswith("-") or not word.is_known]
    return bool(options) and shown.issuperset(options)


def is_device(found: list[PlacedPath]) -> bool:
    is_meant = any(path.is_here and path.may_be_below(["/dev", *KERNEL]) for path in found)
    return is_meant and not any(path.is_below(WRITABLE) for path in found)


def is_taking_disk(command: Command, paths: PathResolver) -> bool:
    """Return whether a program that may do more than look is given a whole disk."""
    return command.program not in LOOKING and any(is_disk(word, command, paths) for word in command.arguments)


def is_disk(word: Word, command: Command, paths: PathResolver) -> bool:
    """Return whether a word, or what stands in it behind a sign, is a whole disk."""
    texts = {word.text, word.text.rpartition("=")[2]}
    found = (path.parts for text in texts if "dev" in text.casefold() for path in paths.lost(Word(text), command))
    return any(len(parts) > 1 and may_be(parts[0], "dev") and DISKS.fullmatch(parts[1]) for parts in found)

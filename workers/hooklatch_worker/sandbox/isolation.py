"""The isolation levels, and their application to a worker.  Knows levels, folders and kernel features.

    standard     nothing beyond what every worker has
    restricted   writes only below the paths of `write` and its own temporary folder; creates no sockets (without
                 `network`); cannot signal, inspect, limit or slow down other processes; has no capabilities
    strict       also reads only code, the system, and the paths of `read`; creates no sockets regardless of `network`;
                 cannot make the system calls listed in seccomp.strict()

Isolation is applied before the first line of the source runs, and cannot be removed.  Missing kernel features are
reported, never ignored.
"""

from __future__ import annotations

import importlib.machinery
import os
import struct
import sys
from collections.abc import Iterator

import msgspec

from hooklatch_worker.sandbox import environment, landlock, seccomp, temporary
from hooklatch_worker.systems import system
from hooklatch_worker.systems.libc import LIBC
from hooklatch_worker.wire import ISOLATION_LEVELS, Isolation, Source

__all__ = [
    "EffectiveIsolation", "IsolationError", "KernelFeatures", "confine_process", "find_effective_isolation",
    "detect_kernel",
]  # fmt: skip

FULL_KERNEL = "Linux 6.12 or later with Landlock (lsm=landlock) and seccomp filters, on x86_64 or aarch64"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "gai.conf", "group", "host.conf"),
    *("hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime"),
    *("magic", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki/tls/certs", "pki/ca-trust", "protocols"),
    *("resolv.conf", "services", "shells", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"),
)
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    *("/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"),
    *(f"/etc/{name}" for name in ETC),
)
NO_CODE = ("hooks.d", "__pycache__")  # folders that are never packages, even with an __init__ file
CAPABILITY_VERSION = 0x20080522  # linux/capability.h


class IsolationError(Exception):
    """The kernel cannot provide the required isolation."""


class KernelFeatures(msgspec.Struct, frozen=True):
    """The kernel's features: the ABI version of Landlock (0: none), and system call filters."""

    landlock: int
    has_filters: bool


class EffectiveIsolation(msgspec.Struct, frozen=True):
    """The strongest level that is fully applied, and what is missing from the configured one."""

    level: str
    missing: list[str]


def detect_kernel() -> KernelFeatures:
    return KernelFeatures(landlock.read_abi(), seccomp.is_supported()) if system.CONFINES else KernelFeatures(0, False)


def find_effective_isolation(kernel: KernelFeatures, isolation: Isolation) -> EffectiveIsolation:
    """Return the isolation that a kernel can provide."""
    missing_by_level = {level: list_missing_isolation(kernel, level, isolation) for level in ISOLATION_LEVELS}
    configured = ISOLATION_LEVELS.index(isolation.level)
    complete_levels = [level for level in ISOLATION_LEVELS[: configured + 1] if not missing_by_level[level]]
    return EffectiveIsolation(complete_levels[-1], missing_by_level[isolation.level])


def list_missing_isolation(kernel: KernelFeatures, level: str, isolation: Isolation) -> list[str]:
    if level == "standard":
        return []
    is_strict = level == "strict"
    needed_features = [
        (kernel.landlock >= 1, "refusing writes (Landlock, Linux 5.13)"),
        (kernel.landlock >= 1, "keeping it out of other processes' memory (Landlock, Linux 5.13)"),
        (kernel.landlock >= 1 or not is_strict, "refusing reads (Landlock, Linux 5.13)"),
        (kernel.landlock >= 3, "refusing to cut files short (Landlock ABI 3, Linux 6.2)"),
        (kernel.landlock >= 6, "refusing signals to others (Landlock ABI 6, Linux 6.12)"),
    ]
    if isolation.network and not is_strict:
        needed_features.append((kernel.landlock >= 6, "refusing abstract sockets (Landlock ABI 6, Linux 6.12)"))
    else:
        needed_features.append((kernel.has_filters, "refusing sockets (seccomp filters, on x86_64 or aarch64)"))
    needed_features += [
        (kernel.has_filters, "refusing to limit, slow or share with others (seccomp filters, on x86_64 or aarch64)"),
        (
            kernel.has_filters or not is_strict,
            "refusing dangerous system calls (seccomp filters, on x86_64 or aarch64)",
        ),
    ]
    return [text for is_there, text in needed_features if not is_there]


def confine_process(isolation: Isolation, source: Source, name: str) -> EffectiveIsolation:
    """Apply the isolation level to this process, irrevocably; `name` is that of its temporary folder.

    Raises:
        IsolationError: the kernel cannot provide it, and it is required.
    """
    if isolation.level == "standard":
        return EffectiveIsolation("standard", [])
    # Made before the confinement, which forbids it.
    own_folder = temporary.make_temporary_folder(isolation.temporary, name)
    kernel = detect_kernel()
    if system.CONFINES:
        drop_capabilities()
    if kernel.landlock and not confine_files(isolation, source, own_folder, kernel.landlock):
        kernel = KernelFeatures(0, kernel.has_filters)
    if kernel.has_filters and not confine_calls(isolation):
        kernel = KernelFeatures(kernel.landlock, has_filters=False)
    effective = find_effective_isolation(kernel, isolation)
    if effective.missing and isolation.is_required:
        raise IsolationError(
            f"{isolation.level} isolation is not available here, since this kernel lacks"
            f" {'; '.join(effective.missing)}. It needs {FULL_KERNEL}. To accept what is available, with a red status:"
            ' if_unavailable = "report" in [isolation]; or choose a lower level'
        )
    return effective


def drop_capabilities() -> None:
    """Drop all capabilities, and with no_new_privs those of every program started from here (capabilities(7))."""
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    LIBC.capset(header, bytes(24))  # dropping is never refused; ctypes passes bytes as a pointer


def confine_files(isolation: Isolation, source: Source, own_folder: str | None, offered: int) -> bool:
    whole = landlock.READ | landlock.WRITE | landlock.DEVICE_IO
    places = dict.fromkeys(DEVICES, whole)
    places |= dict.fromkeys(isolation.write, whole)
    if own_folder is not None:
        places[own_folder] = whole
    refused = landlock.WRITE | landlock.DEVICE_IO
    listed: list[str] = []
    if isolation.level == "strict":
        refused |= landlock.READ
        readable, listed = list_code_paths(source)
        for path in (*SYSTEM, *readable, *isolation.read):
            places.setdefault(path, landlock.READ)
    try:
        landlock.restrict_files(refused, places, refuses_tcp=not has_network(isolation), offered=offered, listed=listed)
    except OSError:
        return False
    return True


def confine_calls(isolation: Isolation) -> bool:
    if isolation.level == "strict":
        rules = seccomp.list_strict_rules()
    else:
        rules = (
            seccomp.list_outward_rules()
            if has_network(isolation)
            else [*seccomp.list_outward_rules(), *seccomp.list_socket_rules()]
        )
    try:
        seccomp.apply_filter(rules)
    except OSError:
        return False
    return True


def has_network(isolation: Isolation) -> bool:
    return isolation.network and isolation.level != "strict"


def list_code_paths(source: Source) -> tuple[list[str], list[str]]:
    """Return the code that a source may depend on: readable paths, and folders that may be listed.

    The interpreter's folders are readable completely.  In other folders of sys.path, and in the source's own, only
    modules and packages are: hooks.toml, hooks.d and other files there may hold secrets of other hooks.
    """
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    readable = [path for path in sorted(prefixes) if path and not is_broad(path)]
    readable += environment.packages()
    covered = tuple(f"{path}/" for path in ("/usr", *readable))
    folders = [path for path in sys.path if path and not f"{path}/".startswith(covered)]
    if source.kind == "file":
        readable.append(source.location)
        folders.append(os.path.dirname(source.location))
    else:
        readable += list_module_paths(source.location.partition(".")[0])
    listed: list[str] = []
    for folder in folders:
        if os.path.isdir(folder):
            listed.append(folder)
            readable += list_folder_modules(folder)
        else:
            readable.append(folder)  # a zip archive
    return readable, listed


def is_broad(path: str) -> bool:
    """Return whether a folder contains the user's home, so that it is not only code."""
    home = os.path.expanduser("~").rstrip("/")
    return path == "/" or f"{home}/".startswith(f"{path.rstrip('/')}/")


def list_folder_modules(folder: str) -> Iterator[str]:
    suffixes = (*importlib.machinery.all_suffixes(), ".pyi")
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        is_module = entry.name == "__pycache__" or (entry.name.endswith(suffixes) and entry.is_file())
        may_be_package = entry.name not in NO_CODE and not entry.name.startswith(".")
        if is_module or (may_be_package and is_package(entry.path)):
            yield entry.path


def is_package(path: str) -> bool:
    return any(os.path.isfile(f"{path}/__init__{suffix}") for suffix in importlib.machinery.all_suffixes())


def list_module_paths(name: str) -> list[str]:
    """Return the paths of a module, which an editable install may keep in its own folder; do not import it."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []  # importing it will raise the error
    if spec is None:
        return []
    return [path for path in (spec.origin, *(spec.submodule_search_locations or ())) if path and os.path.isabs(path)]

"""The two mechanisms on their own, each in its own process: system call filters, and Landlock of each ABI version."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hooklatch_worker.sandbox import landlock, seccomp
from hooklatch_worker.sandbox.isolation import detect_kernel
from support.repository import ROOT

KERNEL = detect_kernel()
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h")
can_filter = pytest.mark.skipif(not KERNEL.has_filters, reason="this kernel takes no filters")
NOW = """
import ctypes, errno, os, sys
from hooklatch_worker.sandbox import landlock
from hooklatch_worker.systems import linux
from hooklatch_worker.sandbox import seccomp
linux.forbid_new_privileges()
def call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in arguments)) < 0
    return errno.errorcode[ctypes.get_errno()] if failed else "ok"
"""


def run(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", NOW + text, *words], capture_output=True, text=True, check=False)


@can_filter
def test_each_call_of_the_list_is_refused_by_the_filter_alone() -> None:
    done = run(
        "seccomp.apply_filter(seccomp.list_strict_rules())\n"
        "column = 0 if os.uname().machine == 'x86_64' else 1\n"
        "for rule in seccomp.list_strict_rules():\n"
        "    number = seccomp.CALLS[rule.call][column]\n"
        "    values = {'fcntl': seccomp.LEASES, 'ioctl': seccomp.INODE_FLAGS}.get(rule.call, [-1])\n"
        "    if number is not None: print(rule.call, call(number, -1, values[0], -1, -1, -1))\n"
    )

    said = dict(line.split() for line in done.stdout.splitlines())
    assert said.pop("clone3") == "ENOSYS"
    assert set(said.values()) == {"EPERM"}, said
    assert {"socket", "ptrace", "unshare", "io_uring_setup", "socketpair", "clone"} <= said.keys()


@can_filter
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it has no other architecture's calls")
def test_calls_of_another_architecture_end_the_process() -> None:
    machine_code = "b814000000cd80c3"  # mov eax, 20; int 0x80; ret: getpid in the numbers of i386
    text = (
        "import mmap\n"
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        f"page.write(bytes.fromhex('{machine_code}'))\n"
        "go = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n"
    )
    free = run(f"{text}print(go() == os.getpid())\n")
    if free.stdout != "True\n":
        pytest.skip("this kernel runs no 32-bit programs")

    held = run(f"{text}seccomp.apply_filter(seccomp.list_socket_rules())\nprint(go())\n")

    assert (held.returncode, held.stdout) == (-31, "")  # SIGSYS


@can_filter
def test_calls_of_the_x32_abi_do_not_exist() -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("only x86_64 has that")

    done = run("seccomp.apply_filter(seccomp.list_socket_rules())\nprint(call(0x40000000 + 41, 1, 1, 0))\n")

    assert done.stdout == "ENOSYS\n"


@pytest.mark.parametrize("column", [0, 1])
def test_the_numbers_are_those_of_the_headers(column: int) -> None:
    path = Path(HEADERS[column])
    if not path.exists():
        pytest.skip(f"there is no {path}")
    numbers = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())
    }

    wrong = {
        name: (both[column], numbers[name])
        for name, both in seccomp.CALLS.items()
        if name in numbers and both[column] != numbers[name]
    }

    assert wrong == {}


def test_the_page_has_a_verdict_on_every_call_that_is_refused() -> None:
    page = (ROOT / "docs/reference/isolation.md").read_text()

    assert [rule.call for rule in seccomp.list_strict_rules() if f"`{rule.call}`" not in page] == []


@pytest.mark.parametrize("machine", seccomp.AUDIT_ARCHITECTURES)
def test_a_filter_is_sound_on_each_machine(machine: str) -> None:
    code = seccomp.assemble_filter(seccomp.list_strict_rules(), machine)

    lines = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    assert len(lines) < 4096  # BPF_MAXINSNS
    assert lines[1][3] == seccomp.AUDIT_ARCHITECTURES[machine]
    assert lines[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)
    for at, (kind, if_true, if_false, _) in enumerate(lines):
        if kind != seccomp.RETURN:
            assert at + 1 + max(if_true, if_false) < len(lines)


@pytest.mark.skipif(not KERNEL.landlock, reason="this kernel has no Landlock")
@pytest.mark.parametrize("offered", range(1, 8))
def test_an_older_landlock_is_asked_only_for_what_it_knows(offered: int, tmp_path: Path) -> None:
    if offered > KERNEL.landlock:
        pytest.skip(f"this kernel has ABI {KERNEL.landlock}")
    (tmp_path / "file").write_text("long")
    (tmp_path / "open").mkdir()

    done = run(
        "folder, offered = sys.argv[1], int(sys.argv[2])\n"
        "places = {f'{folder}/open': landlock.WRITE, '/no/such/place': landlock.WRITE}\n"
        "landlock.restrict_files(landlock.WRITE, places, refuses_tcp=True, offered=offered)\n"
        "def attempt(run):\n"
        "    try: run()\n"
        "    except PermissionError: return 'no'\n"
        "    return 'ok'\n"
        "print(attempt(lambda: open(f'{folder}/open/new', 'w')), attempt(lambda: open(f'{folder}/new', 'w')),\n"
        "      attempt(lambda: os.truncate(f'{folder}/file', 0)), attempt(lambda: os.kill(os.getppid(), 0)))\n",
        str(tmp_path),
        str(offered),
    )

    truncate = "no" if offered >= 3 else "ok"
    signal = "no" if offered >= landlock.SCOPE_ABI else "ok"
    assert done.stdout.split() == ["ok", "no", truncate, signal], done.stderr

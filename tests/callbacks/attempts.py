"""What a hook tries, by name: each attempt comes to "ok" or to the name of an error.  It runs in a worker."""

import ctypes
import errno
import json
import multiprocessing
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading

from hooklatch import hook
from hooklatch_worker.seccomp import CALLS

LIBC = ctypes.CDLL(None, use_errno=True)
COLUMN = 0 if os.uname().machine == "x86_64" else 1
CLONE_NEWUSER = 0x10000000
PTRACE_SEIZE = 0x4206


def call(name, *arguments):
    """Make a system call as it is, with every argument a number."""
    result = LIBC.syscall(CALLS[name][COLUMN], *(ctypes.c_long(one) for one in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def clone():
    if call("clone", CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)
    os.wait()


def write(path):
    with open(path, "w") as file:
        file.write("x")


def read(path):
    with open(path) as file:
        file.read()


def connect(family, address):
    with socket.socket(family) as stream:
        stream.connect(address)


def bind(family, address):
    with socket.socket(family) as stream:
        stream.bind(address)


def send_datagram(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stream:
        stream.sendto(b"x", ("127.0.0.1", port))


def pair(kind):
    for stream in socket.socketpair(socket.AF_UNIX, kind):
        stream.close()


def in_a_thread():
    done = []
    thread = threading.Thread(target=done.append, args=(1,))
    thread.start()
    thread.join()
    assert done


def own_child():
    child = subprocess.Popen(["sleep", "100"])
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def memory_file():
    with open(os.memfd_create("x"), "w") as file:
        write(f"/proc/self/fd/{file.fileno()}")


def database(path):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("create table if not exists t (x)")
        connection.execute("insert into t values (1)")
    connection.close()


def temporary():
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
        write(file.name)
        write(os.path.join(folder, "x"))


def later():
    import colorsys

    import pytest
    import sibling
    import siblings.inner

    assert (sibling.VALUE, siblings.inner.VALUE, colorsys.__name__) == (1, 2, "colorsys")
    assert pytest.__file__ not in sibling.__file__


def python_below():
    assert subprocess.run([sys.executable, "-c", "import json; print(1)"], capture_output=True).stdout == b"1\n"


def attempts(p):
    """The payload tells the places, ports and processes."""
    return {
        "write outside": lambda: write(f"{p['home']}/new"),
        "write over a file outside": lambda: write(f"{p['home']}/file"),
        "cut a file outside short": lambda: os.truncate(f"{p['home']}/file", 0),
        "remove a file outside": lambda: os.unlink(f"{p['home']}/doomed"),
        "make a folder outside": lambda: os.mkdir(f"{p['home']}/folder"),
        "move a file out": lambda: (write(f"{p['write']}/a"), os.rename(f"{p['write']}/a", f"{p['home']}/a")),
        "write beside the source": lambda: write(f"{p['folder']}/mine.py"),
        "write into the shared memory": lambda: multiprocessing.get_context("fork").Lock(),
        "write inside": lambda: write(f"{p['write']}/new"),
        "read inside": lambda: read(f"{p['write']}/file"),
        "use a database inside": lambda: database(f"{p['write']}/db"),
        "use temporary files": temporary,
        "use memory files": memory_file,
        "write to the null device": lambda: write(os.devnull),
        "read the home": lambda: read(f"{p['home']}/secret"),
        "list the home": lambda: os.listdir(p["home"]),
        "look at a file's size": lambda: os.stat(f"{p['home']}/secret"),
        "read hooks.toml": lambda: read(f"{p['folder']}/hooks.toml"),
        "read hooks.d": lambda: read(f"{p['folder']}/hooks.d/other.toml"),
        "read data beside the source": lambda: read(f"{p['folder']}/beside.json"),
        "read another hook's data": lambda: read(f"{p['folder']}/other/secret.json"),
        "read the daemon's state": lambda: read(f"{p['folder']}/state/daemon.lock"),
        "read where it is shown": lambda: read(f"{p['read']}/file"),
        "read its own code": lambda: read(__file__),
        "import late": later,
        "connect to the agent's socket": lambda: connect(socket.AF_UNIX, p["agent"]),
        "connect to the admin socket": lambda: connect(socket.AF_UNIX, p["admin"]),
        "connect by TCP": lambda: connect(socket.AF_INET, ("127.0.0.1", p["tcp"])),
        "send by UDP": lambda: send_datagram(p["udp"]),
        "listen by TCP": lambda: bind(socket.AF_INET, ("127.0.0.1", 0)),
        "listen on a path": lambda: bind(socket.AF_UNIX, f"{p['write']}/s"),
        "connect to an abstract socket": lambda: connect(socket.AF_UNIX, "\0" + p["abstract"]),
        "make a pair of datagram sockets": lambda: pair(socket.SOCK_DGRAM),
        "make a pair of sockets": lambda: pair(socket.SOCK_STREAM),
        "make a ring of requests": lambda: call("io_uring_setup", 0, 0),
        "signal the daemon": lambda: os.kill(p["daemon"], 0),
        "signal the zygote": lambda: os.kill(os.getppid(), 0),
        "signal another worker": lambda: os.kill(p["other"], 0),
        "kill its own child": own_child,
        "trace another worker": lambda: call("ptrace", PTRACE_SEIZE, p["other"], 0, 0),
        "open the daemon's memory": lambda: read_some(f"/proc/{p['daemon']}/mem"),
        "read the daemon's environment": lambda: read_some(f"/proc/{p['daemon']}/environ"),
        "open another worker's memory": lambda: read_some(f"/proc/{p['other']}/mem"),
        "read another worker's environment": lambda: read_some(f"/proc/{p['other']}/environ"),
        "take another worker's descriptor": lambda: take_descriptor(p["other"]),
        "run threads": in_a_thread,
        "run a program": lambda: subprocess.run(["/bin/sh", "-c", "echo x | cat > /dev/null"], check=True),
        "run Python below": python_below,
        "make a namespace": lambda: in_a_child(lambda: call("unshare", CLONE_NEWUSER)),
        "make a process in a namespace": clone,
        "change a mode": lambda: os.chmod(f"{p['home']}/secret", 0o600),
        "trace the kernel": lambda: call("bpf", 0, 0, 0),
        "use the kernel's keys": lambda: call("keyctl", 0, -1, 0, 0, 0),
        "watch page faults": lambda: call("userfaultfd", -1),
        "have a capability": has_capability,
    }


def read_some(path):
    """Open it, which is where the kernel decides; what an address holds does not matter."""
    os.close(os.open(path, os.O_RDONLY))


def take_descriptor(pid):
    pidfd = os.pidfd_open(pid)
    try:
        call("pidfd_getfd", pidfd, 0, 0)
    finally:
        os.close(pidfd)


def in_a_child(run):
    pid = os.fork()
    if not pid:
        try:
            run()
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(number, "in a child")


def has_capability():
    with open("/proc/self/status") as file:
        held = next(line for line in file if line.startswith("CapEff"))
    if not int(held.split()[1], 16):
        raise OSError(errno.EPERM, "none")


def tried(run):
    try:
        run()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


@hook("pre_tool_use", match="Try")
def try_all(event):
    found = {name: tried(run) for name, run in attempts(event.tool_input).items()}
    print(json.dumps(found))


@hook("pre_tool_use", match="Trio")
async def under_trio(event):
    import trio

    with trio.fail_after(20):
        done = await trio.run_process(["echo", "hello"], capture_stdout=True)
        number = await trio.to_thread.run_sync(lambda: 7)
        await trio.lowlevel.checkpoint()
    print(done.stdout.decode().strip(), number)


@hook("pre_tool_use", match="Asyncio", runtime="asyncio")
async def under_asyncio(event):
    import asyncio

    async with asyncio.timeout(20):
        process = await asyncio.create_subprocess_exec("echo", "hello", stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        number = await asyncio.to_thread(lambda: 7)
    print(out.decode().strip(), number)

"""What a hook tries, by name: each attempt comes to "ok" or to the name of an error.  It runs in a worker."""

import ctypes
import errno
import fcntl
import json
import multiprocessing
import os
import resource
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading

from hooklatch import hook
from hooklatch_worker.sandbox.seccomp import CALLS, list_outward_rules, list_socket_rules, list_strict_rules

LIBC = ctypes.CDLL(None, use_errno=True)
COLUMN = 0 if os.uname().machine == "x86_64" else 1
CLONE_NEWUSER = 0x10000000
PTRACE_SEIZE = 0x4206
FS_IOC_SETFLAGS = 0x40086602
SCHED_BATCH = 3
NOT_FILTERED = {  # Landlock is asked about these
    "kcmp": (312, 272), "migrate_pages": (256, 238), "move_pages": (279, 239), "get_robust_list": (274, 100),
    "process_madvise": (440, 440),
}  # fmt: skip


def call(name, *arguments):
    """Make a system call as it is, with every argument a number or a buffer."""
    number = {**CALLS, **NOT_FILTERED}[name][COLUMN]
    given = (one if isinstance(one, ctypes.Array) else ctypes.c_long(one) for one in arguments)
    result = LIBC.syscall(number, *given)
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


def limit_own_child():
    child = subprocess.Popen(["sleep", "100"])
    try:
        resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))
    finally:
        child.kill()
        child.wait()


def set_attributes(pid):
    attributes = ctypes.create_string_buffer((48).to_bytes(4, "little") + SCHED_BATCH.to_bytes(4, "little"), 48)
    call("sched_setattr", pid, attributes, 0)


def own_a_pipe(pid):
    """Have the kernel send somebody a signal, for what happens to a socket of ours."""
    victim = os.pidfd_open(pid)
    one, other = socket.socketpair()
    fcntl.fcntl(one, fcntl.F_SETOWN, pid)
    fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC)
    other.send(b"x")
    ended, _, _ = select.select([victim], [], [], 0.5)
    os.close(victim)
    if not ended:
        raise OSError(errno.EPERM, "it lives on")


def lease(path):
    with open(path) as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def shared_memory():
    segment = call("shmget", 0, 4096, 0o600)
    call("shmctl", segment, 0, 0)


def queue():
    name = ctypes.create_string_buffer(b"hooklatch-attempt")
    os.close(call("mq_open", name, os.O_RDWR | os.O_CREAT, 0o600, 0))
    call("mq_unlink", name)


def of_own_code(change):
    """Change what belongs to a file that can be read, by its descriptor."""
    fd = os.open(__file__, os.O_RDONLY)
    try:
        change(fd)
    finally:
        os.close(fd)


def program(name, *words):
    """Run it, where it is installed."""
    if shutil.which(name):
        subprocess.run([name, *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)


def git(folder):
    os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "HOME": folder}
    write(f"{folder}/tracked")
    program("git", "-C", folder, "add", "tracked")
    program("git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x")
    program("git", "-C", folder, "status")


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
        "limit the daemon": lambda: resource.prlimit(p["daemon"], resource.RLIMIT_CPU),
        "limit another process": lambda: resource.prlimit(p["victim"], resource.RLIMIT_CORE, (0, 0)),
        "limit its own child": limit_own_child,
        "limit itself": lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)),
        "slow another process": lambda: os.setpriority(os.PRIO_PROCESS, p["victim"], 5),
        "slow another group": lambda: os.setpriority(os.PRIO_PGRP, p["victim"], 5),
        "slow itself": lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0)),
        "bind another process to processors": lambda: os.sched_setaffinity(p["victim"], os.sched_getaffinity(0)),
        "bind itself to processors": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "schedule another process": lambda: os.sched_setscheduler(p["victim"], SCHED_BATCH, os.sched_param(0)),
        "set another's scheduling": lambda: os.sched_setparam(p["victim"], os.sched_param(0)),
        "set another's attributes of scheduling": lambda: set_attributes(p["victim"]),
        "schedule itself": lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)),
        "slow another's disk": lambda: call("ioprio_set", 1, p["victim"], 2 << 13 | 7),
        "choose another for lack of memory": lambda: write_one(f"/proc/{p['victim']}/oom_score_adj"),
        "write another's memory": lambda: os.close(os.open(f"/proc/{p['victim']}/mem", os.O_WRONLY)),
        "move another's memory": lambda: call("migrate_pages", p["victim"], 0, 0, 0),
        "ask where another's memory is": lambda: call("move_pages", p["victim"], 0, 0, 0, 0, 0),
        "compare with another": lambda: call("kcmp", os.getpid(), p["victim"], 1, 0, 0),
        "read another's locks": lambda: call("get_robust_list", p["victim"], *2 * [ctypes.create_string_buffer(8)]),
        "advise another's memory": lambda: advise(p["victim"]),
        "make shared memory": shared_memory,
        "make a queue of messages": queue,
        "take a lease on a file": lambda: lease(f"{p['write']}/file"),
        "set times by a path": lambda: os.utime(f"{p['home']}/secret"),
        "set times inside by a path": lambda: os.utime(f"{p['write']}/file"),
        "set times of an open file": lambda: of_own_code(os.utime),
        "touch a file": lambda: program("touch", f"{p['write']}/file"),
        "change a mode by a descriptor": lambda: of_own_code(lambda fd: os.fchmod(fd, 0o600)),
        "make a program that runs as its owner": lambda: os.chmod(f"{p['write']}/file", 0o4700),
        "change an owner by a descriptor": lambda: of_own_code(lambda fd: os.fchown(fd, -1, -1)),
        "change an attribute by a descriptor": lambda: of_own_code(lambda fd: os.setxattr(fd, "user.x", b"")),
        "change the flags of a file": lambda: of_own_code(lambda fd: fcntl.ioctl(fd, FS_IOC_SETFLAGS, bytes(8))),
        "write all disks' caches": lambda: call("syncfs", -1),
        "use a repository": lambda: git(f"{p['write']}/repository"),
        "run node": lambda: program("node", "-e", "setTimeout(() => process.exit(0), 1)"),
        "end another's shared memory": lambda: call("shmctl", p["segment"], 0, 0),
        "have a signal sent": lambda: own_a_pipe(p["victim"]),  # the victim's last
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


def write_one(path):
    with open(path, "w") as file:
        file.write("1")


def advise(pid):
    pidfd = os.pidfd_open(pid)
    try:
        call("process_madvise", pidfd, 0, 0, 20, 0)
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


@hook("pre_tool_use", match="Calls")
def make_calls(event):
    """Make every call that a level refuses, with arguments that it refuses and that no kernel would take."""
    rules = (
        list_strict_rules() if event.tool_input["level"] == "strict" else [*list_outward_rules(), *list_socket_rules()]
    )
    calls = {rule.call for rule in rules} - {"fcntl", "ioctl"}
    there = sorted(name for name in calls if CALLS[name][COLUMN] is not None)
    print(json.dumps({name: tried(lambda name=name: call(name, -1, -1, -1, -1, -1)) for name in there}))


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

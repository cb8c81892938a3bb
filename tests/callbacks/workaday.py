"""Functions for tests of pools: each answers with what its worker can see of itself."""

import os
import resource
import signal
import sys
import threading
import time

from hooklatch import allow

hoard = []


def tell(value):
    return allow().context(said=value)


def pid(event):
    return tell(os.getpid())


def wait(event):
    with open(event.payload["began"], "a") as file:
        file.write(f"{os.getpid()}\n")
    while not os.path.exists(event.payload["go"]):
        time.sleep(0.002)
    return tell(os.getpid())


def die(event):
    os.kill(os.getpid(), signal.SIGKILL)


def die_later(event):
    def later():
        while not os.path.exists(event.payload["go"]):
            time.sleep(0.002)
        os._exit(7)

    threading.Thread(target=later).start()
    return tell(os.getpid())


def grow(event):
    hoard.append(b"x" * (event.payload["mib"] * 2**20))
    return tell(os.getpid())


def grow_later(event):
    def later():
        hoard.append(b"x" * (event.payload["mib"] * 2**20))

    threading.Timer(0.05, later).start()
    return tell(os.getpid())


def environment(event):
    return tell({"now": dict(os.environ), "first": read_own("environ")})


def read_own(name):
    try:
        with open(f"/proc/self/{name}") as file:
            return file.read()
    except FileNotFoundError:
        return ""  # a system without


def surroundings(event):
    status = dict(line.split(":\t", 1) for line in read_own("status").splitlines() if ":\t" in line)
    names = os.listdir("/dev/fd")
    fds = sorted(int(name) for name in names if os.path.exists(f"/dev/fd/{name}"))  # without the listing's own
    return tell(
        {
            "fds": fds,
            "core": resource.getrlimit(resource.RLIMIT_CORE),
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
            "size": resource.getrlimit(resource.RLIMIT_FSIZE),
            "no_new_privs": status.get("NoNewPrivs"),
            "threads": status.get("Threads"),
            "session": os.getsid(0),
            "group": os.getpgid(0),
            "pid": os.getpid(),
            "parent": os.getppid(),
            "umask": os.umask(0o077),
            "modules": sorted(name for name in sys.modules if name.partition(".")[0] in ("trio", "psutil", "asyncio")),
            "stdin": sys.stdin.read(),
        }
    )


def write_much(event):
    with open(event.payload["path"], "wb") as file:
        file.truncate(0)
        for _ in range(100):
            file.write(b"x" * 2**20)

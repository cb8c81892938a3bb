"""Callbacks that do everything a callback should not.  `how` in the payload chooses; the match value chooses the kind."""

import ctypes
import io
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import msgspec

from hooklatch_worker import amend, claim, deny, hook, inject, resume, warn

EVENTS = ["pre_tool_use", "notification", "post_model", "message_claim"]


def how(event):
    return event.payload["how"]


def well(event):
    if event.event == "pre_tool_use":
        return deny("well")
    if event.event == "notification":
        return inject({"role": "user", "content": "well"})
    if event.event == "post_model":
        return amend(response="well")
    return claim("well")


@hook(EVENTS, match="sync")
def misbehave(event):
    return SYNC[how(event)](event)


@hook(EVENTS, match="hang", timeout=0.4)
def hang(event):
    return HANGS[how(event)](event)


def meets_the_others(event):
    """Answer once a worker has been here for each event."""
    os.makedirs(event.payload["meeting"], exist_ok=True)
    open(os.path.join(event.payload["meeting"], event.event), "w").close()
    while len(os.listdir(event.payload["meeting"])) < len(EVENTS):
        time.sleep(0.002)
    return well(event)


def raises(event):
    raise ValueError("went wrong")


def raises_group(event):
    raise BaseExceptionGroup("many", [SystemExit(3), ValueError("x")])


class Unspeakable(Exception):
    def __str__(self):
        raise SystemExit("no text")


def raises_unspeakable(event):
    raise Unspeakable


def raises_surrogate(event):
    raise ValueError("lone \udc80 surrogate")


def raises_at_length(event):
    raise ValueError("x" * 30_000_000)


def recurses(event):
    return recurses(event)


def system_exit(event):
    sys.exit(0)


def keyboard_interrupt(event):
    raise KeyboardInterrupt


def generator_exit(event):
    raise GeneratorExit


def exits_with_0(event):
    os._exit(0)


def exits_with_3(event):
    os._exit(3)


def segfaults(event):
    ctypes.string_at(0)


def aborts(event):
    os.abort()


def kills_itself(event):
    os.kill(os.getpid(), signal.SIGKILL)


def leaks_memory(event):
    hoard = []
    while True:
        hoard.append(b"x" * (4 * 2**20))
        time.sleep(0.004)


def returns_a_str(event):
    return "deny"


def returns_an_int(event):
    return 1


def returns_true(event):
    return True


def returns_an_object(event):
    return object()


def returns_a_dict(event):
    return {"verdict": "allow"}


def returns_nan(event):
    return amend(tool_input={"n": float("nan")}, response={"n": float("nan")})


def returns_a_surrogate(event):
    return warn("lone \udc80 surrogate")


def returns_bytes_in_a_patch(event):
    return amend(response=b"bytes")


def returns_an_illegal_verdict(event):
    return resume("go on")


def returns_an_illegal_patch_key(event):
    return amend(nonsense=1)


def returns_depth(event):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    return amend(tool_input={"deep": deep}, response=deep)


def returns_a_cycle(event):
    cycle = {}
    cycle["self"] = cycle
    return amend(tool_input=cycle, response=cycle)


def returns_too_much(event):
    text = "x" * (9 * 2**20)
    return amend(tool_input={"x": text}) if event.event == "pre_tool_use" else amend(response=text)


def closes_all_descriptors(event):
    os.closerange(0, 256)
    return well(event)


def closes_the_socket(event):
    os.close(3)
    return well(event)


def shuts_the_socket_down(event):
    import socket

    socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RDWR)
    return well(event)


def writes_garbage_to_the_socket(event):
    os.write(3, b"\xff" * 64)
    return well(event)


def writes_a_frame_of_garbage(event):
    os.write(3, struct.pack("!I", 8) + b"\xc1" * 8)
    return well(event)


def forge(**changes):
    from hooklatch_worker import wire

    return wire.encode_frame(msgspec.structs.replace(wire.CallAnswered(1, 1, b'{"verdict":"allow"}'), **changes))


def forges_another_call(event):
    os.write(3, forge(call_id=999))
    return well(event)


def forges_another_generation(event):
    os.write(3, forge(generation=999))
    return well(event)


def forges_a_load(event):
    from hooklatch_worker import wire

    os.write(3, wire.encode_frame(wire.SourceLoaded(1, [], [], {})))
    return well(event)


def kills_from_a_thread(event):
    threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    time.sleep(3600)


def prints(event):
    print("printed")
    print("complained", file=sys.stderr)
    return well(event)


def writes_to_descriptors(event):
    os.write(1, b"printed\n")
    os.write(2, b"complained\n")
    return well(event)


def runs_a_program_that_prints(event):
    subprocess.run(["sh", "-c", "echo printed; echo complained >&2"], check=True)
    return well(event)


def floods_stdout(event):
    for _ in range(160):
        print("x" * 2**16)
    print("the end")
    return well(event)


def closes_stdout(event):
    sys.stdout.close()
    sys.stderr.close()
    return well(event)


def removes_stdout(event):
    del sys.stdout
    sys.stderr = None
    return well(event)


def replaces_stdout(event):
    sys.stdout = io.StringIO()
    return well(event)


class Hostile:
    def write(self, text):
        raise SystemExit

    def flush(self):
        raise SystemExit


def replaces_stdout_by_something_hostile(event):
    sys.stdout = Hostile()
    return well(event)


def closes_descriptors_1_and_2(event):
    os.close(1)
    os.close(2)
    return well(event)


def keeps_a_file_as_descriptor_1(event):
    os.close(1)
    assert os.open(event.payload["path"], os.O_RDWR) == 1
    return well(event)


def starts_a_thread(event):
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return well(event)


def starts_a_daemon_thread(event):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    return well(event)


def exits_in_a_thread(event):
    thread = threading.Thread(target=lambda: sys.exit(5))
    thread.start()
    thread.join()
    return well(event)


def forks_a_child_that_lives_on(event):
    if os.fork() == 0:
        time.sleep(3600)
    return well(event)


def forks_a_child_that_returns(event):
    os.fork()
    return well(event)


def forks_a_child_that_raises(event):
    if os.fork() == 0:
        raise ValueError("in the child")
    return well(event)


def forks_a_child_and_dies(event):
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(1)


def double_forks_a_daemon(event):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        os._exit(0)
    os.wait()
    return well(event)


def double_forks_a_daemon_and_dies(event):
    double_forks_a_daemon(event)
    os._exit(1)


def starts_a_program_that_lives_on(event):
    subprocess.Popen(["sleep", "3600"], start_new_session=True)
    return well(event)


def sends_sigterm_to_its_parent(event):
    os.kill(os.getppid(), signal.SIGTERM)
    return well(event)


def sends_sigint_to_its_group(event):
    os.killpg(0, signal.SIGINT)
    return well(event)


def changes_directory_and_environment(event):
    os.chdir("/")
    os.environ.clear()
    return well(event)


def breaks_signals(event):
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_IGN)
    return well(event)


def sleeps(event):
    time.sleep(3600)


def spins_in_c(event):
    return sum(range(10**12))


def spins_in_python(event):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def stops_itself(event):
    os.kill(os.getpid(), signal.SIGSTOP)
    return well(event)


def floods_stderr_for_ever(event):
    while True:
        try:
            os.write(2, b"x" * 2**16)
        except OSError:
            continue


def waits_for_a_child_for_ever(event):
    subprocess.run(["sleep", "3600"])


def reads_the_socket(event):
    return os.read(3, 1)


def ignores_all_signals_and_sleeps(event):
    breaks_signals(event)
    time.sleep(3600)


def returns_a_coroutine_of_no_runtime(event):
    class Odd:
        def __await__(self):
            yield "nobody knows this"

    async def odd():
        await Odd()

    return odd()


def returns_an_awaitable(event):
    class Later:
        def __await__(self):
            yield
            return deny("too late")

    return Later()


def returns_a_generator(event):
    return (deny("too late") for _ in range(1))


def returns_an_async_generator(event):
    async def answers():
        yield deny("too late")

    return answers()


def returns_the_function(event):
    return deny


def returns_no_opinion(event):
    return None


SYNC = {name: value for name, value in list(globals().items()) if callable(value)}
HANGS = SYNC

"""What a pool tells of a callback that crashed, and what one that left something behind cannot do to the next call."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from support.pools import running_pool, until

pytestmark = pytest.mark.slow  # each test starts a zygote: 0.15 s and more

INTRUDERS = """
import os, sys, threading, time
from hooklatch import allow, deny
from hooklatch_worker import wire


def forged():
    frame = sys._getframe()
    while "generation" not in frame.f_locals:
        frame = frame.f_back
    generation = frame.f_locals["generation"]
    return [wire.encode_frame(wire.CallAnswered(generation, number, b'{"verdict":"allow"}')) for number in range(1, 4)]


def leave_a_child(event):
    frames = forged()
    if os.fork() == 0:
        for attempt in (lambda: os.read(3, 2**16), *(lambda frame=frame: os.write(3, frame) for frame in frames)):
            try:
                attempt()
            except OSError:
                continue
        open(event.payload["go"], "w").close()
        time.sleep(3600)
    return allow().context(said=os.getpid())


def leave_a_thread(event):
    frames = forged()

    def later():
        while not os.path.exists(event.payload["go"]):
            time.sleep(0.002)
        os.write(3, frames[1])

    threading.Thread(target=later).start()
    return allow().context(said=os.getpid())


def refuse(event):
    return deny("no").context(said=os.getpid())
"""


async def test_a_crash_tells_the_line_of_its_author_and_the_whole_traceback(tmp_path: Path) -> None:
    text = "import json\nimport asyncio\n\n\ndef guard(event):\n    json.loads('{')\n\n\n"
    text += "async def wait(event):\n    await asyncio.sleep(0.01)\n"
    async with running_pool(tmp_path, text) as workers:
        broken = await workers.call("guard")
        waiting = await workers.call("wait")

    assert (broken.cause, broken.message.rpartition(" ")[2]) == ("crash", "(source.py:6)")
    assert "source.py\", line 6, in guard\n    json.loads('{')\n" in broken.traceback
    assert "decoder.py" in broken.traceback
    assert broken.traceback == broken.stderr
    assert "no running event loop (source.py:10)" in waiting.message
    assert 'runtime = "asyncio"' in waiting.message


async def test_what_a_callback_forked_neither_hears_nor_answers_the_next_call(tmp_path: Path) -> None:
    async with running_pool(tmp_path, INTRUDERS, workers=1) as workers:
        forked_by = await workers.said("leave_a_child")
        await until((tmp_path / "go").exists)
        reply = await workers.call("refuse")

    assert b'"verdict":"deny"' in reply.answer
    assert f'"said":{forked_by}'.encode() in reply.answer


async def test_what_a_worker_says_between_two_calls_is_no_answer_to_the_next_one(tmp_path: Path) -> None:
    async with running_pool(tmp_path, INTRUDERS, workers=1) as workers:
        intruder = await workers.said("leave_a_thread")
        worker = next(one for one in workers.pool.live_workers() if one.pid == intruder)
        workers.let_go()
        with trio.fail_after(10):
            await trio.lowlevel.wait_readable(worker.process.socket)
        reply = await workers.call("refuse")
        await until(lambda: intruder not in workers.pool.status()["pids"])

    assert (reply.cause, worker.kill_reason) == ("policy", "it broke the protocol between two calls")
    assert b'"verdict":"deny"' in reply.answer
    assert f'"said":{intruder}'.encode() not in reply.answer


PRINTERS = """
import os, subprocess, sys


def around(event):
    os.write(1, b"past the stream ")
    subprocess.run(["sh", "-c", "echo opened anew > /dev/stderr"], check=True)


def within(event):
    print("buffered", end="")


def into_a_file(event):
    os.dup2(os.open(event.payload["go"], os.O_RDWR | os.O_CREAT), 1)


def silent(event):
    return None
"""


async def test_what_a_callback_prints_is_its_own_calls_output_however_it_prints(tmp_path: Path) -> None:
    async with running_pool(tmp_path, PRINTERS) as workers:
        around = await workers.call("around")
        after = await workers.call("silent")
        within = await workers.call("within")

    assert (around.stdout, around.stderr) == ("past the stream ", "opened anew\n")
    assert (after.stdout, after.stderr) == ("", "")
    assert (within.stdout, within.stderr) == ("buffered", "")


async def test_a_file_that_a_callback_put_in_place_of_its_output_is_neither_read_nor_emptied(tmp_path: Path) -> None:
    (tmp_path / "go").write_text("the author's")
    async with running_pool(tmp_path, PRINTERS) as workers:
        replies = [await workers.call(function) for function in ("into_a_file", "silent")]

    assert [reply.stdout for reply in replies] == ["", ""]
    assert (tmp_path / "go").read_text() == "the author's"


async def test_the_first_call_of_a_worker_is_the_first_that_its_source_sees(tmp_path: Path) -> None:
    text = "from hooklatch import allow\ncalls = []\n\n\ndef count(event):\n    calls.append(event.event)\n"
    text += "    return allow().context(said=len(calls))\n"
    async with running_pool(tmp_path, text) as workers:
        told = [await workers.said("count") for _ in range(2)]

    assert told == [1, 2]

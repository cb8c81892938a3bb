"""The log: what a line names, in both forms, and that nobody waits for who should read it."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hooklatch.service.logs import CAPACITY, Form, HumanFormatter, JsonFormatter, LogHandler
from support.commands import PROGRAM, Place, Started, new_place, payload

RECORD = {"name": "hooklatch.test", "levelno": 20, "levelname": "INFO", "msg": "said %s", "args": ("so",)}


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place


def record(**fields: Any) -> logging.LogRecord:
    return logging.makeLogRecord(RECORD | fields)


def test_a_line_of_json_has_its_time_in_utc_and_the_fields_beside_the_message() -> None:
    line = json.loads(JsonFormatter().format(record(hook="global/h", call=7, session=None)))

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
    assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)
    del line["time"]
    assert line == {"level": "info", "logger": "hooklatch.test", "message": "said so", "hook": "global/h", "call": 7}


def test_a_field_cannot_take_the_place_of_what_every_line_has() -> None:
    line = json.loads(JsonFormatter().format(record(time="never", level="none", logger="mine")))

    assert (line["level"], line["logger"]) == ("info", "hooklatch.test")


def test_an_exception_is_in_the_object_and_the_object_is_one_line() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        text = JsonFormatter().format(record(exc_info=(type(error), error, error.__traceback__)))

    assert "\n" not in text
    assert json.loads(text)["exception"].endswith("ValueError: a\nb")


def test_the_human_form_appends_fields_and_quotes_what_could_be_misread() -> None:
    line = HumanFormatter().format(record(hook="h", session="a b", why='x="1"', none=None))

    assert line.endswith('INFO    hooklatch.test: said so hook=h session="a b" why="x=\\"1\\""')


@pytest.mark.parametrize("formatter", [HumanFormatter(), JsonFormatter()])
def test_nothing_that_is_said_can_begin_a_line_or_command_a_terminal(formatter: logging.Formatter) -> None:
    line = formatter.format(record(args=("\n2026 ERROR forged\x1b[31m",), session="\ns\x1b"))

    assert "\n" not in line
    assert "\x1b" not in line


@contextmanager
def logging_to(fd: int, form: Form = "json") -> Generator[tuple[LogHandler, logging.Logger]]:
    log = LogHandler(fd, JsonFormatter() if form == "json" else HumanFormatter())
    logger = logging.Logger("hooklatch.test")
    logger.addHandler(log)
    try:
        yield log, logger
    finally:
        log.close()


@pytest.mark.slow
def test_a_full_pipe_costs_lines_and_no_time_and_the_loss_is_told() -> None:
    """Slow: it fills a pipe and the queue."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=2**20) as read, logging_to(writer) as (log, logger):
        for number in range(CAPACITY + 5000):
            logger.info("line %d of many", number)
        dropped = log.dropped
        lines = [json.loads(read.readline()) for _ in range(CAPACITY + 5000 - dropped)]
        loss = json.loads(read.readline())
        logger.info("and now it is read")
        last = json.loads(read.readline())
    os.close(writer)

    assert 0 < dropped < 5000
    numbers = [int(line["message"].split()[1]) for line in lines]
    assert numbers == sorted(set(numbers))  # in order, each once; which ones are missing is the scheduler's affair
    assert (loss["message"], loss["dropped"]) == ("lines were dropped, since the log was not read", dropped)
    assert last["message"] == "and now it is read"


@pytest.mark.slow
def test_a_log_that_nobody_reads_ends_all_the_same() -> None:
    """Slow: its last words are given a second."""
    reader, writer = os.pipe()
    with logging_to(writer) as (log, logger):
        for number in range(5000):
            logger.info("line %d", number)
    was_stuck = log._thread.is_alive()
    os.close(reader)
    log._thread.join(10)
    os.close(writer)

    assert was_stuck
    assert not log._thread.is_alive()


def test_a_reader_that_is_gone_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with logging_to(writer) as (log, logger):
        logger.info("to nobody")
    os.close(writer)

    assert log.dropped == 1


def test_a_pipe_that_others_made_non_blocking_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(reader, "rb") as read, logging_to(writer) as (_, logger):
        for number in range(2000):
            logger.info("line %d", number)
        numbers = [json.loads(read.readline())["message"] for _ in range(2000)]
    os.close(writer)

    assert numbers == [f"line {number}" for number in range(2000)]


def serve(place: Place, *words: str) -> Started:
    daemon = place.begin("serve", *words)
    assert daemon.line()
    return daemon


def lines_of(daemon: Started) -> list[dict[str, Any]]:
    daemon.signal(signal.SIGTERM)
    code, _, err = daemon.end()
    assert code == 0
    return [json.loads(line) for line in err.splitlines()]


@pytest.mark.slow
def test_refusals_and_failures_of_hooks_are_told_with_their_ids_and_no_payload(place: Place) -> None:
    daemon = serve(place, "--log-format", "json")
    fire = [*PROGRAM, "fire", "pre_tool_use", "--session", "s-7", "--payload", "-"]
    for tool in ("Bash", "Crash"):
        subprocess.run(
            fire, input=payload(tool, command="rm secret"), text=True, env=place.environment, check=False,
            capture_output=True,
        )  # fmt: skip
    lines = lines_of(daemon)

    refused = [line for line in lines if line["message"] == "refused"]
    (failed,) = [line for line in lines if line["message"] == "hook failed"]
    hook = "global/guards:judge"
    assert [(one["hook"], one["cause"], one["session"]) for one in refused] == [
        (hook, "policy", "s-7"), (hook, "crash", "s-7"),
    ]  # fmt: skip
    assert all(one["decision"] for one in refused)
    assert (failed["level"], failed["hook"], failed["cause"], failed["session"]) == ("warning", hook, "crash", "s-7")
    assert failed["decision"] == refused[1]["decision"]
    assert failed["call"]
    assert "secret" not in json.dumps(lines)


@pytest.mark.slow
def test_a_daemon_whose_log_nobody_reads_goes_on_deciding_and_ends(place: Place) -> None:
    daemon = serve(place, "--log-format", "json", "--log-level", "debug")
    fill(daemon)

    denied = place.fire_tool("Bash", command="rm x")
    daemon.signal(signal.SIGTERM)
    code = daemon.process.wait(20)
    for stream in (daemon.process.stdout, daemon.process.stderr):
        assert stream is not None
        stream.close()

    assert denied.returncode == 2
    assert code == 0


def fill(daemon: Started) -> None:
    """Fill the pipe that is the daemon's standard error, from our end: the daemon shows its own to root alone."""
    assert daemon.process.stderr is not None
    fd = os.open(f"/proc/self/fd/{daemon.process.stderr.fileno()}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while os.write(fd, b"x" * 4096):
            continue
    except BlockingIOError:
        return
    finally:
        os.close(fd)


def test_a_file_of_its_own_is_begun_anew_when_it_is_large_and_one_old_one_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    log = LogHandler(fd, HumanFormatter(), str(path), maximum=1000)

    for number in range(100):
        log.emit(logging.makeLogRecord({"msg": f"{number} " + "x" * 30, "levelname": "INFO", "name": "test"}))
    log.close()
    os.close(fd)

    assert sorted(one.name for one in tmp_path.iterdir()) == ["daemon.log", "daemon.log.1"]
    assert all(one.stat().st_size < 1200 for one in tmp_path.iterdir())
    last = path.read_text() or (tmp_path / "daemon.log.1").read_text()
    assert "test: 99 x" in last

"""The daemon's log: lines for people, or JSON for programs.

    logger.info("text", extra={"session": ..., "hook": ...}) ─▶ queue ─▶ a thread ─▶ descriptor 2

Logging never blocks. If the reader is stuck, the queue fills, and further lines are dropped and counted.  A line has
fields and never a payload, and the text of a hook or an agent cannot start a line of its own.
"""

from __future__ import annotations

import json
import logging
import os
import select
import threading
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Literal

from hooklatch.files import open_regular

__all__ = ["Form", "HumanFormatter", "JsonFormatter", "LogHandler", "start_log"]

Form = Literal["human", "json"]
CAPACITY = 10_000  # lines in the queue
MAX_FILE = 8 * 2**20  # bytes of a log's own file, before it becomes the old one: two of these are kept
LAST_WORDS = 1.0  # seconds to flush the queue at the end
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def list_log_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line, which were passed in `extra`."""
    return {name: value for name, value in vars(record).items() if name not in STANDARD and value is not None}


class HumanFormatter(logging.Formatter):
    """The form `time LEVEL logger: message field=value`, on one line. A traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={quote_log_value(value)}" for name, value in list_log_fields(record).items())
        return escape_log_text(super().formatMessage(record)) + fields


class JsonFormatter(logging.Formatter):
    """The form of one JSON object a line: time, level, logger, message, the fields, exception."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(
            line | {name: value for name, value in list_log_fields(record).items() if name not in line}, default=str
        )


def escape_log_text(text: str) -> str:
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def quote_log_value(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' ="') else json.dumps(text)


class LogHandler(logging.Handler):
    """The handler that writes lines to a descriptor in a thread, since the descriptor may block for any time.

    If the descriptor is of a file of its own, given by `path`, a large file is moved to `PATH.1` and a new one started.
    """

    def __init__(self, fd: int, formatter: logging.Formatter, path: str | None = None, maximum: int = MAX_FILE) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.dropped = 0
        self._fd = fd
        self._path = path
        self._maximum = maximum
        self._reported = 0
        self._queue: SimpleQueue[logging.LogRecord | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="hooklatch-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._queue.qsize() >= CAPACITY:
            self.dropped += 1
        else:
            self._queue.put(record)

    def close(self) -> None:
        """Flush the queue, as far as the reader keeps up."""
        self._queue.put(None)
        self._thread.join(LAST_WORDS)
        super().close()

    def _write_all(self) -> None:
        while (record := self._queue.get()) is not None:
            self._write(record)
            # Only when the queue is empty, so that one notice counts a whole burst.
            if self.dropped != self._reported and self._queue.empty():
                self._write(self._make_loss_record())
            if self._path is not None:
                self._begin_anew_if_large(self._path)

    def _begin_anew_if_large(self, path: str) -> None:
        try:
            if os.fstat(self._fd).st_size < self._maximum:
                return
            os.replace(path, f"{path}.1")
            fresh = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
        except OSError:
            return  # keep writing to the old file
        os.dup2(fresh, self._fd)
        os.close(fresh)

    def _make_loss_record(self) -> logging.LogRecord:
        count, self._reported = self.dropped - self._reported, self.dropped
        fields = {"name": "hooklatch.log", "levelno": logging.WARNING, "levelname": "WARNING", "dropped": count}
        return logging.makeLogRecord({**fields, "msg": "lines were dropped, since the log was not read"})

    def _write(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception as error:  # a line that cannot be formatted must not end the log
            line = f"hooklatch.log: a line of {record.name} cannot be written: {type(error).__name__}"
        rest = memoryview(line.encode("utf-8", "backslashreplace") + b"\n")
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll()
            except OSError:
                self.dropped += 1  # its reader is gone
                self._reported += 1
                return


def start_log(level: str, form: Form, fd: int = 2, *, path: str | None = None) -> LogHandler:
    """Send all log records to a descriptor, or the file behind it. The caller closes the log."""
    log = LogHandler(fd, JsonFormatter() if form == "json" else HumanFormatter(), path)
    root = logging.getLogger()
    root.addHandler(log)
    root.setLevel(level.upper())
    return log

"""The HTTP server of the page of metrics, on one port of the loopback."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from socketserver import TCPServer, ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

__all__ = ["serve_metrics"]

logger = logging.getLogger("hooklatch.metrics")
LOOPBACK = "127.0.0.1"
CLIENT_TIMEOUT = 5.0  # seconds that a client may take for its request


class Server(ThreadingMixIn, WSGIServer):
    """The server, with a thread for each request. These are daemon threads, so none delays the daemon's end."""

    daemon_threads = True
    is_closing = False

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # WSGIServer's own method asks a name server for our name
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])
        self.setup_environ()

    def answer_all(self) -> None:
        while not self.is_closing:
            self.handle_request()

    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("a request for metrics failed", exc_info=True)


class MetricsRequestHandler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        logger.debug("metrics: %s", format % args)


@contextmanager
def serve_metrics(port: int, answer: Callable[..., Iterable[bytes]]) -> Generator[None]:
    """Answer on a port of the loopback for the duration of the block.

    Raises:
        OSError: the port is in use, or needs privileges.
    """
    server = make_server(LOOPBACK, port, answer, Server, MetricsRequestHandler)
    thread = threading.Thread(target=server.answer_all, name="hooklatch-metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.is_closing = True
        with suppress(OSError):
            server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a client
        thread.join()
        server.server_close()

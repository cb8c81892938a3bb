"""A server of git repositories over https: the program `git http-backend` behind a TLS server of Python's own."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support.certificates import Authority

__all__ = ["GitServer", "serving_git"]


class GitServer(ThreadingHTTPServer):
    """Serves the repositories below a folder; with a `moved` address it leads there, with a `status` it refuses."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), GitHandler)
        self.folder = folder
        self.asked: list[str] = []
        self.moved: str | None = None
        self.status: int | None = None

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that does not trust the certificate hangs up."""


class GitHandler(BaseHTTPRequestHandler):
    server: GitServer

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.asked.append(self.path)
        if self.server.moved is not None or self.server.status is not None:
            self.send_response(self.server.status or 302)
            self.send_header("Location", f"{self.server.moved}{self.path}")
            self.send_header("WWW-Authenticate", 'Basic realm="guards"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        variables = {
            "PATH": os.environ["PATH"], "HOME": str(self.server.folder), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(self.server.folder), "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command,
            "PATH_INFO": path, "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, env=variables, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        """Keep standard error for what fails."""


@contextmanager
def serving_git(folder: Path, authority: Authority) -> Generator[GitServer]:
    """Serve what is below a folder, with a certificate of an authority, until the end of the block."""
    server = GitServer(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("git-server", "127.0.0.1"))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

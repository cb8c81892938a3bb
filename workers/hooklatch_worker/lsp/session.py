"""One session with a language server, without I/O: received bytes are fed in, bytes to send collect in `outgoing`.

    Starting ──answer to initialize──▶ Ready ──(show → diagnostics)*──▶ say_goodbye

Only a Ready server is shown documents.  A document is opened once, and then changed with its full text and the next
version.  Diagnostics arrive in one of two ways.  A server with a diagnosticProvider is asked, and its answer is final.
Any other publishes on its own, for the latest version or without naming one; diagnostics for an earlier version are
dropped.

Raises LspProtocolError for every protocol violation.  Does not know a clock, processes or the disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from hooklatch_worker.lsp.report import LspDiagnostic
from hooklatch_worker.lsp.wire import (
    LspMessage,
    LspProtocolError,
    MessageReader,
    encode_lsp_message,
    format_file_uri,
    parse_file_uri,
)

__all__ = ["MAX_DOCUMENTS", "MAX_OUTGOING", "LspSession"]

MAX_DOCUMENTS = 32  # open at the same time; each takes memory in the server
MAX_OUTGOING = 32 * 2**20  # bytes unread by the server; enough for several of the largest files
MAX_PULLS = 5  # times that a server may postpone its answer about one version

METHOD_NOT_FOUND = -32601
CONTENT_MODIFIED = -32801
SERVER_CANCELLED = -32802  # "ask me again" (LSP 3.17, DiagnosticServerCancellationData)

T = TypeVar("T")


class SyncOptions(Struct, frozen=True, rename="camel"):
    save: bool | dict[str, Any] | None = None


class Capabilities(Struct, frozen=True, rename="camel"):
    text_document_sync: int | SyncOptions | None = None
    diagnostic_provider: bool | dict[str, Any] | None = None


class InitializeResult(Struct, frozen=True):
    capabilities: Capabilities = Capabilities()


class PublishDiagnosticsParams(Struct, frozen=True):
    uri: str
    diagnostics: list[LspDiagnostic]
    version: int | None = None


class DocumentDiagnosticReport(Struct, frozen=True):
    items: list[LspDiagnostic] = []


class ConfigurationRequest(Struct, frozen=True):
    items: list[Any] = []


class OpenDocument(Struct):
    """A file as the server knows it, and its diagnostics since then."""

    digest: bytes
    version: int = 1
    published: list[LspDiagnostic] | None = None
    pulled: list[LspDiagnostic] | None = None
    pulls: int = 0


class LspSession:
    """The client's side of one session, starting with `initialize`."""

    def __init__(self, root: str, *, process_id: int) -> None:
        self.outgoing = bytearray()
        self.is_ready = False
        self._root = root
        self._reader = MessageReader()
        self._count = 0
        self._pending: dict[int, Callable[[LspMessage], None]] = {}
        self._documents: dict[str, OpenDocument] = {}  # least recently shown first
        self._capabilities = Capabilities()
        self._request("initialize", make_initialize_params(root, process_id), self._on_initialized)

    @property
    def pulls(self) -> bool:
        """Return whether this server is asked for diagnostics, as opposed to publishing them."""
        return self._capabilities.diagnostic_provider not in (None, False)

    @property
    def open_paths(self) -> list[str]:
        return list(self._documents)

    def feed(self, data: bytes) -> None:
        """Process bytes from the server.

        Raises:
            LspProtocolError: the session cannot continue.
        """
        self._reader.feed(data)
        while (message := self._reader.take()) is not None:
            self._on_message(message)

    def show(self, path: str, *, language: str, text: str) -> None:
        """Send the current content of a file to the server, and request diagnostics if it supports that."""
        digest = hashlib.sha256(text.encode()).digest()
        document = self._documents.pop(path, None)
        if document is None:
            document = OpenDocument(digest)
            self._open(path, language, text)
        elif document.digest != digest:
            document = OpenDocument(digest, document.version + 1)
            self._change(path, document.version, text)
        self._documents[path] = document
        if self.pulls:
            document.pulled, document.pulls = None, 0
            self._pull(path, document)
        for oldest in self.open_paths[:-MAX_DOCUMENTS]:
            self.close(oldest)

    def close(self, path: str) -> None:
        """Close a file, so that the server uses its content on disk again."""
        if self._documents.pop(path, None) is not None:
            self._notify("textDocument/didClose", {"textDocument": {"uri": format_file_uri(path)}})

    def has_answer(self, path: str) -> bool:
        document = self._documents[path]
        return (document.pulled if self.pulls else document.published) is not None

    def diagnostics(self, path: str) -> list[LspDiagnostic]:
        """Return all diagnostics for the latest version of a file."""
        document = self._documents[path]
        return [*(document.pulled or []), *(document.published or [])]

    def probe(self) -> None:
        """Send an unknown request, which every working server answers at once (LSP 3.17, `$/` requests)."""
        self._request("$/hooklatch/probe", None, lambda _: None)

    def say_goodbye(self) -> None:
        self._request("shutdown", None, lambda _: None)
        self._notify("exit", None)

    def _open(self, path: str, language: str, text: str) -> None:
        item = {"uri": format_file_uri(path), "languageId": language, "version": 1, "text": text}
        self._notify("textDocument/didOpen", {"textDocument": item})

    def _change(self, path: str, version: int, text: str) -> None:
        document = {"uri": format_file_uri(path), "version": version}
        self._notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})
        sync = self._capabilities.text_document_sync
        save = sync.save if isinstance(sync, SyncOptions) else None
        if save is None or save is False:
            return
        # The file is already on disk, and some servers only compile saved files.
        includes_text = isinstance(save, dict) and save.get("includeText") is True
        saved: dict[str, object] = {"textDocument": {"uri": format_file_uri(path)}}
        self._notify("textDocument/didSave", {**saved, "text": text} if includes_text else saved)

    def _pull(self, path: str, document: OpenDocument) -> None:
        document.pulls += 1
        params: dict[str, object] = {"textDocument": {"uri": format_file_uri(path)}}
        provider = self._capabilities.diagnostic_provider
        if isinstance(provider, dict) and isinstance(provider.get("identifier"), str):
            params["identifier"] = provider["identifier"]
        version = document.version
        self._request("textDocument/diagnostic", params, lambda message: self._on_pulled(path, version, message))

    def _on_message(self, message: LspMessage) -> None:
        if not message.method:
            answered = self._pending.pop(message.id, None) if isinstance(message.id, int) else None
            if answered is not None:
                answered(message)
        elif message.id is not None:
            self._send(self._answer(message.id, message))
        elif message.method == "textDocument/publishDiagnostics":
            self._on_published(message)

    def _on_initialized(self, message: LspMessage) -> None:
        if message.error is not None:
            raise LspProtocolError(f"initialize was refused: {message.error.message!r}")
        self._capabilities = decode_lsp_result(message.result, InitializeResult).capabilities
        self.is_ready = True
        self._notify("initialized", {})

    def _on_published(self, message: LspMessage) -> None:
        published = decode_lsp_result(message.params, PublishDiagnosticsParams)
        document = self._documents.get(parse_file_uri(published.uri) or "")
        if document is not None and published.version in (None, document.version):
            document.published = published.diagnostics

    def _on_pulled(self, path: str, version: int, message: LspMessage) -> None:
        document = self._documents.get(path)
        if document is None or document.version != version:
            return
        if message.error is None:
            document.pulled = (
                decode_lsp_result(message.result, DocumentDiagnosticReport).items if message.result != b"null" else []
            )
        elif message.error.code in (CONTENT_MODIFIED, SERVER_CANCELLED) and document.pulls < MAX_PULLS:
            self._pull(path, document)
        else:
            document.pulled = []

    def _answer(self, number: int | str, message: LspMessage) -> dict[str, object]:
        match message.method:
            case "workspace/configuration":
                # One null for each requested item: without a setting the server uses its default.
                result: object = [None] * len(decode_lsp_result(message.params, ConfigurationRequest).items)
            case "workspace/workspaceFolders":
                result = [describe_workspace_folder(self._root)]
            case "workspace/applyEdit":
                result = {"applied": False}
            case "window/showDocument":
                result = {"success": False}
            case "client/registerCapability" | "client/unregisterCapability":
                result = None
            case "window/showMessageRequest" | "window/workDoneProgress/create":
                result = None
            case method if method.startswith("workspace/") and method.endswith("/refresh"):
                result = None
            case method:
                error = {"code": METHOD_NOT_FOUND, "message": f"no method {method!r} here"}
                return {"id": number, "error": error}
        return {"id": number, "result": result}

    def _request(self, method: str, params: object, on_answer: Callable[[LspMessage], None]) -> None:
        self._count += 1
        self._pending[self._count] = on_answer
        self._send({"id": self._count, **make_message(method, params)})

    def _notify(self, method: str, params: object) -> None:
        self._send(make_message(method, params))

    def _send(self, message: dict[str, object]) -> None:
        self.outgoing += encode_lsp_message(message)
        if len(self.outgoing) > MAX_OUTGOING:
            raise LspProtocolError(f"the server has left {len(self.outgoing)} bytes unread")


def make_message(method: str, params: object) -> dict[str, object]:
    return {"method": method} if params is None else {"method": method, "params": params}


def decode_lsp_result(raw: Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise LspProtocolError(f"not a valid {kind.__name__}: {error}") from None


def describe_workspace_folder(root: str) -> dict[str, object]:
    return {"uri": format_file_uri(root), "name": root.rpartition("/")[2] or "/"}


def make_initialize_params(root: str, process_id: int) -> dict[str, object]:
    return {
        "processId": process_id,  # the server should exit when this process is gone
        "clientInfo": {"name": "hooklatch"},
        "rootPath": root,
        "rootUri": format_file_uri(root),
        "workspaceFolders": [describe_workspace_folder(root)],
        "capabilities": {
            # Characters if the server supports it, so that columns are as in an editor.
            "general": {"positionEncodings": ["utf-32", "utf-16"]},
            "workspace": {"configuration": True, "workspaceFolders": True},
            "textDocument": {
                "synchronization": {"didSave": True, "dynamicRegistration": False},
                "publishDiagnostics": {"versionSupport": True, "relatedInformation": False},
                "diagnostic": {"dynamicRegistration": False, "relatedDocumentSupport": False},
            },
            "window": {"workDoneProgress": False},
        },
    }

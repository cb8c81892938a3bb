"""The reader of hooks.toml and hooks.d/*.toml.  Knows their tables; opens no file and runs nothing.

A file is accepted as a whole or not at all, with one exception: a hook whose only fault is its matcher is kept, with a
problem.  `ConfigFile` describes everything that a file may contain.
"""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Meta

from hooklatch.core.hooks.catalogue import Catalogue, EventDefinition
from hooklatch.core.hooks.definitions import HookDefinition, HookTable, InvalidHookError, define_hooks
from hooklatch.core.tables import InvalidTableError, describe_unknown_key, read_table
from hooklatch.processes.pool_limits import TOTAL_BYTES, PoolLimits
from hooklatch.products import TABLES as PRODUCT_TABLES
from hooklatch.products import ProductError, list_products, load_product, run_product
from hooklatch.record.settings import MIB
from hooklatch.service.config.settings import (
    AskTable,
    DaemonTable,
    IsolationTable,
    Level,
    MainTable,
    Override,
    OverrideTable,
    PersonalityTable,
    RecordTable,
    Settings,
    StateTable,
    TableEffect,
    make_absolute,
)  # fmt: skip
from hooklatch.service.config.toml_document import ConfigError, Diagnostic, TomlDocument, check_brackets
from hooklatch_worker.author.marker import find_file_name_fault
from hooklatch_worker.wire import Source, WorkerLimits

if TYPE_CHECKING:
    from hooklatch.core.answers import SettingsAnswer

__all__ = [
    "PROJECT_TABLES", "TABLES", "ConfigError", "ConfigFile", "CustomDialect", "Diagnostic", "FileConfig", "ForeignFile",
    "GitSources", "SourceCopy", "SourceTable", "read_config",
]  # fmt: skip

DEFAULT = PoolLimits()

Workers: TypeAlias = Annotated[int, Meta(ge=2, le=64, extra={"note": "one is kept free of notifications"})]
# The upper limit is far beyond any sensible value, and still small enough to send.
Count: TypeAlias = Annotated[int, Meta(gt=0, le=2**31)]
# A line break would be a line of its own for ssh-keygen.
Signer: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^(ssh|ecdsa|sk)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}( [ -~]*)?\Z", extra={"is": "a public SSH key"}),
]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=2**31)]


class SourceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """[[source]]: a Python file or module, or the guards of a git repository; functions marked with @hook are hooks."""

    path: str | None = None
    module: str | None = None
    git: Annotated[str, Meta(min_length=1, examples=["https://example.com/team/guards.git"])] | None = None
    rev: str | None = None
    signers: list[Signer] = []
    workers: Workers | None = None
    isolation: Level | None = None
    python: Annotated[str, Meta(min_length=1, examples=[".venv/bin/python"])] | None = None
    files: list[str] = []

    def __post_init__(self) -> None:
        given = [place for place in (self.path, self.module, self.git) if place is not None]
        if len(given) != 1 or not given[0]:
            raise InvalidTableError('a source needs path = "guards.py" or module = "package.module", or git with rev')
        if (self.git is None) != (self.rev is None) or (self.signers and self.git is None):
            raise InvalidTableError('git needs a rev, and rev and signers need git = "https://…"', ("git",))
        if self.rev is not None and not (
            self.signers or (len(self.rev) == 40 and set(self.rev) <= set("0123456789abcdef"))
        ):
            text = (
                "is not a whole commit id, and others can move a branch or a tag; write the id, or a tag with the keys"
            )
            raise InvalidTableError(f'{self.rev!r} {text} that sign it: signers = ["ssh-ed25519 …"]', ("rev",))
        if self.files and self.path is None:
            raise InvalidTableError("files are in the folder of a path: the data of a module is a part of its package")
        for fault in filter(None, map(find_file_name_fault, self.files)):
            raise InvalidTableError(fault)

    @cached_property
    def source(self) -> Source:
        return Source("module", self.module) if self.module is not None else Source("file", self.path or "")

    def below(self, folder: str) -> SourceTable:
        """Return the same table with absolute paths; a relative one is relative to `folder`."""
        path = self.path and make_absolute(self.path, folder)
        return msgspec.structs.replace(self, path=path, python=self.python and make_absolute(self.python, folder))


class WorkersTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[workers]: how many processes a source has, and when a process is replaced."""

    workers: Workers = DEFAULT.workers
    calls: Count = DEFAULT.calls
    age: Seconds = DEFAULT.age
    memory_mib: Count = DEFAULT.resident_bytes // MIB
    total_mib: Count = TOTAL_BYTES // MIB
    processes: Count = DEFAULT.processes
    threads: Count = DEFAULT.threads
    open_files: Count = DEFAULT.worker.open_files
    file_mib: Count = DEFAULT.worker.file_bytes // MIB

    def limits(self) -> PoolLimits:
        return PoolLimits(
            workers=self.workers, calls=self.calls, age=self.age, resident_bytes=self.memory_mib * MIB,
            total_bytes=self.total_mib * MIB, processes=self.processes, threads=self.threads,
            worker=WorkerLimits(open_files=self.open_files, file_bytes=self.file_mib * MIB),
        )  # fmt: skip


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file as it is written, with all tables but those of products (`hooklatch/products.py`).

    The place of a file decides which of them it may contain. Only the main one may contain a product's.
    """

    source: list[SourceTable] = []
    hook: list[HookTable] = []
    event: list[EventDefinition] = []
    dialect: list[dict[str, Any]] = []
    workers: WorkersTable = WorkersTable()
    override: list[OverrideTable] = []
    personality: dict[str, PersonalityTable] = {}
    daemon: DaemonTable = DaemonTable()
    record: RecordTable = RecordTable()
    isolation: IsolationTable = IsolationTable()
    state: StateTable = StateTable()
    ask: AskTable = AskTable()


TABLES = ("source", "hook", "event", "dialect", "workers")  # of a file in hooks.d
PROJECT_TABLES = ("source", "hook")  # of a project's files: they change nothing that other sessions see


class SourceCopy(msgspec.Struct, frozen=True):
    """The files of a repository that a table names by `git`, below `root`, with the sha256 that each must have.

    Without any of them `root` is a source that cannot be loaded, for the reason `fault`.
    """

    table: SourceTable
    root: str
    pins: dict[str, str] = {}  # by path
    fault: Diagnostic | None = None


class CustomDialect(msgspec.Struct, frozen=True):
    """A [[dialect]] table as it is written; an error in it does not refuse the rest of its file."""

    table: dict[str, Any]
    line: int


class FileConfig(msgspec.Struct, frozen=True):
    """The declarations of one file, and the sha256 of its bytes (empty for a Python file: its source has the digest).

    `builtin` are the hooks that products' tables add, and `levels` the isolation of their sources.
    `diagnostics` are about parts that cannot be used, in a file whose rest can.  `copies` are those of its sources.
    `keys` has the number of times that each key is in a TOML file: a file that is half written has fewer.
    """

    path: str
    digest: str = ""
    sources: list[SourceTable] = []  # with absolute paths
    hooks: list[HookDefinition] = []
    events: list[EventDefinition] = []
    dialects: list[CustomDialect] = []
    limits: PoolLimits = PoolLimits()
    overrides: list[Override] = []
    personalities: dict[str, list[str]] = {}
    builtin: list[HookDefinition] = []
    levels: dict[str, str] = {}
    settings: Settings = Settings()
    diagnostics: list[Diagnostic] = []
    copies: list[SourceCopy] = []
    keys: Counter[str] = msgspec.field(default_factory=Counter[str])

    @property
    def is_bare(self) -> bool:
        """Return whether a file of hooks.d declares nothing at all, and nothing is wrong with it."""
        declared = (self.sources, self.hooks, self.events, self.dialects, self.copies, self.diagnostics)
        return not any(declared) and "workers" not in self.keys


class ForeignFile(NamedTuple):
    """A form of files of another system.

    `read` reads one that is in hooks.d, and raises ConfigError. `define` returns tables of hooks, and notes, for a
    client that registers those of its own file.
    """

    read: Callable[[str, bytes], FileConfig]
    define: Callable[[str, bytes, str | None], SettingsAnswer]


class GitSources(NamedTuple):
    """The product of sources in git: `find` puts the files of their copies in place of the tables that name them."""

    find: Callable[[FileConfig], FileConfig]


def read_config(path: str, data: bytes, tables: tuple[str, ...] = ConfigFile.__struct_fields__) -> FileConfig:
    """Read one file's bytes; `tables` are those that the file may contain, all of them if it is the main one.

    Raises:
        ConfigError: the file has an error; its diagnostic has the line.
    """
    document = TomlDocument(path, data)
    with document.at():
        added = list_product_tables(document.content, tables)
    file, folder = document.read(ConfigFile, added), os.path.dirname(path)
    paths = [*((name,) for name in added), *([("ask", "notify")] if file.ask.notify is not None else [])]
    effects = [read_product_table(document, path, folder) for path in paths]
    for index, event in enumerate(file.event):
        with document.at("event", index):
            Catalogue.standard().with_custom([event])
    return FileConfig(
        path=path,
        sources=[source.below(folder) for source in file.source],
        hooks=[hook for index, table in enumerate(file.hook) for hook in define_table_hooks(document, index, table)],
        events=file.event,
        dialects=[
            CustomDialect(table, document.line_of(("dialect", index))) for index, table in enumerate(file.dialect)
        ],
        limits=file.workers.limits(),
        overrides=[
            override.override(document.line_of(("override", index))) for index, override in enumerate(file.override)
        ],
        personalities={name: table.plugins for name, table in file.personality.items()},
        builtin=[hook for effect in effects for hook in effect.hooks],
        levels={location: level for effect in effects for location, level in effect.levels.items()},
        settings=read_settings(document, file, folder, effects),
        keys=Counter(list_keys(document.content, "")),
    )


def list_keys(value: object, path: str) -> Iterator[str]:
    """Yield the path of each key of a table and of the tables in it, as `hook.config.allow`."""
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from list_keys(item, path)
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield f"{path}{key}"
            yield from list_keys(inner, f"{path}{key}.")


def list_product_tables(content: Mapping[str, Any], tables: tuple[str, ...]) -> list[str]:
    """Return the names of the tables that products read.

    Raises:
        InvalidTableError: a file of this place may not contain one of the tables, or there is no such table.
    """
    added: list[str] = []
    for name in content:
        if name in tables:
            continue
        try:
            products = [name for name in list_products(PRODUCT_TABLES) if "." not in name]
        except ProductError as error:
            raise InvalidTableError(f"it is unknown whether there is a table {name!r}: {error}", (name,)) from None
        if tables == ConfigFile.__struct_fields__ and name in products:
            added.append(name)
        elif name in (*ConfigFile.__struct_fields__, *products):
            raise InvalidTableError(f"the file has no key {name!r}; it belongs in the user's main hooks.toml", (name,))
        else:
            known = (*tables, *products) if tables == ConfigFile.__struct_fields__ else tables
            none = "" if products else "; no package adds tables, not even hooklatch: install it anew"
            raise InvalidTableError(describe_unknown_key("the file", name, known) + none, (name,))
    return added


def read_product_table(document: TomlDocument, path: tuple[str, ...], folder: str) -> TableEffect:
    """Read a product's table.  A product that fails is an error of the file, which is not accepted then."""
    name = ".".join(path)
    with document.at():
        try:
            product = load_product(PRODUCT_TABLES, name, MainTable)
            return run_product(
                "its reader fails", TableEffect, lambda: read_with(product, document, path, folder), ConfigError
            )
        except ProductError as error:
            raise InvalidTableError(f"[{name}] has no effect: {error}", path) from None


def read_with(product: MainTable, document: TomlDocument, path: tuple[str, ...], folder: str) -> TableEffect:
    content: Any = reduce(operator.getitem, path, document.content)
    whole: Any = product.struct
    with document.at():
        check_brackets(path[-1], content, whole)
        for name in reversed(path):  # as the file has it, so that messages have the place
            content, whole = {name: content}, msgspec.defstruct("File", [(name, whole)])
        table = reduce(getattr, path, read_table(content, whole, "file"))
    with document.at(*path):
        return product.read(table, folder)


def define_table_hooks(document: TomlDocument, index: int, table: HookTable) -> list[HookDefinition]:
    with document.at("hook", index):
        if table.served:
            raise InvalidHookError(
                table.id or "", "served hooks are registered by a client, not in a file", ("served",)
            )
        line = document.line_of(("hook", index))
        return define_hooks(table, document.content["hook"][index], is_lenient=True, line=line)


def read_settings(document: TomlDocument, file: ConfigFile, folder: str, effects: list[TableEffect]) -> Settings:
    metrics_file = file.daemon.metrics_file
    with document.at("isolation"):
        isolation = file.isolation.settings(folder)
    fleet = next((effect.fleet for effect in effects if effect.fleet is not None), None)
    notify = next((effect.notify for effect in effects if effect.notify is not None), None)
    return Settings(
        record=file.record.settings(file.daemon.record, fleet), isolation=isolation,
        metrics_port=file.daemon.metrics_port,
        metrics_file=make_absolute(metrics_file, folder) if metrics_file is not None else None,
        keeps_state=file.state.kept, fleet=fleet, ask_wait=file.ask.seconds, asks_for_all=file.ask.agents == "all",
        notify=notify, is_halting=file.daemon.on_overruled == "halt",
    )  # fmt: skip

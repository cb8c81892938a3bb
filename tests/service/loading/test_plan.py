"""What a reload takes of what it saw, by tables: no file, no worker, no daemon."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.builtin_sources import LSP
from hooklatch.core.hooks.definitions import read_definition
from hooklatch.service.building.layer_builder import Layers
from hooklatch.service.building.manifests import manifests
from hooklatch.service.config.configuration import Diagnostic, FileConfig, SourceTable
from hooklatch.service.config.main_tables import Override
from hooklatch.service.config.path_lookup import Absent, Fault, Names
from hooklatch.service.config.settings import Settings
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.reading.declared_files import DeclaredFile, SeenFile
from hooklatch.service.reading.plan import Manifests, Plan, Seen, plan, too_weak
from hooklatch.service.reading.plugins import Discovery, Plugin
from hooklatch_worker.wire import Isolation

MAIN, FOLDER, FILE = "/c/hooks.toml", "/c/hooks.d", "/c/hooks.d/a.toml"
ISOLATION = Settings().isolation


def config(path: str = FILE, *ids: str, event: str = "pre_tool_use", **rest: object) -> FileConfig:
    tables = [{"id": name, "event": event, "run": "/c/guards.py:no"} for name in ids]
    return FileConfig(path, hooks=[hook for table in tables for hook in read_definition(table)], **rest)  # type: ignore[arg-type]


OLD, NEW, EMPTY = config(FILE, "old"), config(FILE, "new"), config()
BROKEN = Diagnostic(FILE, 3, "not TOML")
LOST = config(FILE, "new", diagnostics=[Diagnostic(FILE, 7, "an entry cannot be told")])
UNKNOWN = config(FILE, "new", event="no_such_event")
SHORT = Fault("no descriptor is left", is_passing=True)
CLOSED = Fault("no permission")
MANIFEST = {FILE: [ManifestHook("old", "pre_tool_use")]}


def seen(
    file: SeenFile = EMPTY, *, listing: Names | Absent | Fault | None = None, main: SeenFile | None = None,
    packages: Discovery | None = None, manifests: Manifests | None = None,
) -> Seen:  # fmt: skip
    return Seen(
        listing or Names(["a.toml"]), {MAIN: main or Absent(), FILE: file},
        packages or Discovery({}, {}, set()), manifests or {},
    )  # fmt: skip


def active(*known: FileConfig, main: FileConfig | None = None, **rest: Any) -> Plan:
    return Plan(main=main or FileConfig(MAIN), files=[DeclaredFile(one.path, one) for one in known], **rest)


def taken(found: Plan, path: str = FILE) -> FileConfig | None:
    (file,) = [file for file in found.files if file.path == path]
    return file.config


@pytest.mark.parametrize(
    ("known", "is_remembered", "there", "is_explicit", "version", "said"),
    [
        (None, False, NEW, False, NEW, ""),
        (OLD, True, NEW, False, NEW, ""),
        (None, False, EMPTY, False, EMPTY, ""),
        # what is not there counts as empty where it never was in force, or somebody accepts it
        (None, False, Absent(), False, EMPTY, ""),
        (OLD, True, Absent(), False, OLD, "is gone"),
        (None, True, Absent(), False, None, "is gone"),
        (OLD, True, Absent(), True, EMPTY, ""),
        (None, True, Absent(), True, EMPTY, ""),
        # so does what has lost its hooks
        (OLD, True, EMPTY, False, OLD, "is empty now"),
        (None, True, EMPTY, False, None, "is empty now"),
        (OLD, True, EMPTY, True, EMPTY, ""),
        (OLD, True, LOST, False, OLD, "accept the file as it is"),
        (OLD, True, LOST, True, LOST, ""),
        (None, False, LOST, False, LOST, ""),
        # what is wrong or cannot be read is accepted by nobody
        *[
            (known, is_remembered, there, is_explicit, known, text)
            for there, text in ((BROKEN, "not TOML"), (SHORT, "no descriptor"), (CLOSED, "no permission"),
                                (UNKNOWN, "no event"))
            for known, is_remembered in ((None, False), (None, True), (OLD, True))
            for is_explicit in (False, True)
        ],
    ],
)  # fmt: skip
def test_which_version_of_a_file_is_taken(
    known: FileConfig | None,
    is_remembered: bool,
    there: SeenFile,
    is_explicit: bool,
    version: FileConfig | None,
    said: str,
) -> None:
    before = active(*([known] if known else []))

    found = plan(before, seen(there, manifests=MANIFEST if is_remembered else {}), is_explicit=is_explicit)

    assert taken(found) == version
    assert [said in str(one) for one in found.diagnostics] == ([True] if said else [])


@pytest.mark.parametrize(
    ("listing", "is_explicit", "version"),
    [
        (Absent(), False, OLD),
        (Fault("no permission"), False, OLD),
        (Fault("no permission"), True, OLD),
        (Names([]), False, OLD),
    ],
)
def test_without_a_listing_what_was_in_force_stays(
    listing: Names | Absent | Fault,
    is_explicit: bool,
    version: FileConfig,
) -> None:
    what = seen(Absent() if isinstance(listing, Names) else CLOSED, listing=listing, manifests=MANIFEST)

    found = plan(active(OLD, FileConfig(FOLDER)), what, is_explicit=is_explicit)

    assert taken(found) == version
    assert found.diagnostics


def test_an_explicit_reload_lets_go_of_what_the_listing_lacks() -> None:
    found = plan(active(OLD), seen(Absent(), listing=Names([]), manifests=MANIFEST), is_explicit=True)

    assert [file.path for file in found.files] == [MAIN, FOLDER]
    assert not found.diagnostics


@pytest.mark.parametrize(("fault", "is_to_retry"), [(SHORT, True), (CLOSED, False), (BROKEN, False)])
def test_only_what_may_pass_by_itself_is_tried_again(fault: Fault | Diagnostic, is_to_retry: bool) -> None:
    assert plan(active(OLD), seen(fault), is_explicit=False).is_to_retry is is_to_retry


def test_without_a_sound_main_file_settings_and_overrides_stay_as_they_were() -> None:
    settings, overrides = Settings(keeps_state=True), [Override("plugin.x", {"enabled": False}, 1)]
    known = active(main=FileConfig(MAIN, settings=settings, overrides=overrides))

    found = plan(known, seen(main=CLOSED, manifests={MAIN: []}), is_explicit=True)

    assert (found.main.settings, found.main.overrides, MAIN in found.good) == (settings, overrides, False)


def test_a_sound_main_file_says_how_the_daemon_runs() -> None:
    main = FileConfig(MAIN, lsp={}, settings=Settings(keeps_state=True))

    found = plan(active(), seen(main=main), is_explicit=False)

    assert MAIN in found.good
    assert found.main.settings.keeps_state
    assert list(found.wanted) == [LSP.source.location]


@pytest.mark.parametrize(
    ("is_known", "faults", "is_explicit", "stays"),
    [
        (True, {}, False, True),
        (True, {}, True, False),
        (True, {"/site": CLOSED}, True, True),
        (False, {}, False, True),
    ],
)
def test_a_plugin_that_had_hooks_stays_until_somebody_accepts_that_it_is_gone(
    is_known: bool,
    faults: dict[str, Fault],
    is_explicit: bool,
    stays: bool,
) -> None:
    known = {"acme": Plugin("acme", "acme_hooks")} if is_known else {}
    remembered = {"plugin:acme": [ManifestHook("acme.no", "pre_tool_use")]}
    what = seen(packages=Discovery({}, faults, set()), manifests=remembered)

    found = plan(active(plugins=known), what, is_explicit=is_explicit)

    assert [plugin.name for plugin in found.plugins.values()] == ["acme"] * stays


def test_a_source_is_wanted_once_with_the_workers_that_somebody_gave_it() -> None:
    tables = [SourceTable(path="/c/guards.py", workers=5), SourceTable(module="acme")]

    found = plan(active(), seen(msgspec.structs.replace(NEW, sources=tables)), is_explicit=False)

    assert {place: found.workers.get(place) for place in found.wanted} == {"/c/guards.py": 5, "acme": None}


@pytest.mark.parametrize(
    ("held", "wanted", "is_required", "goes"),
    [
        ("standard", "strict", True, True),
        ("standard", "strict", False, False),
        ("strict", "restricted", True, False),
        (None, "strict", True, False),
    ],
)
def test_a_build_that_is_held_to_less_than_is_required_goes_although_there_is_no_other(
    held: str | None,
    wanted: str,
    is_required: bool,
    goes: bool,
) -> None:
    def at(level: str) -> Isolation:
        return msgspec.structs.replace(ISOLATION, level=level, is_required=is_required)

    assert too_weak(at(held) if held else None, at(wanted)) is goes


@pytest.mark.parametrize(
    ("there", "is_explicit", "remembered"),
    [
        (EMPTY, True, {MAIN: [], FOLDER: [], FILE: []}),  # accepted: it holds no hooks from now on
        (Absent(), True, {MAIN: [], FOLDER: []}),  # accepted: nobody needs to remember it
        (Absent(), False, {MAIN: [], FOLDER: [], **MANIFEST}),
        (BROKEN, True, {MAIN: [], FOLDER: [], **MANIFEST}),
    ],
)
def test_what_a_later_start_knows_of_a_file(
    there: SeenFile,
    is_explicit: bool,
    remembered: dict[str, list[ManifestHook]],
) -> None:
    before = {"/another/hooks.toml": [ManifestHook("x", "stop")], **MANIFEST}
    what = seen(there, main=FileConfig(MAIN), manifests=before)
    found = plan(active(OLD), what, is_explicit=is_explicit)
    layers = Layers([], {}, [], {MAIN: [], FOLDER: []} | ({FILE: []} if there is EMPTY else {}))
    kept = () if found.good.get(FILE) is EMPTY or FILE in found.absent else (FILE,)

    after = manifests(before, found, what, layers, kept, is_explicit=is_explicit)

    assert after == {"/another/hooks.toml": before["/another/hooks.toml"], **remembered}

"""What a reload takes of what it saw, by tables: no file, no worker, no daemon."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hooklatch.core.hooks.definitions import read_definition
from hooklatch.lsp import LspTable, read_lsp
from hooklatch.path_lookup import DirectoryNames, PathAbsent, PathFault
from hooklatch.service.config.configuration import Diagnostic, FileConfig, SourceTable
from hooklatch.service.config.settings import Override, Settings
from hooklatch.service.config.state_file import ManifestHook
from hooklatch.service.loading.bind import BuiltLayers
from hooklatch.service.loading.commit import list_manifests
from hooklatch.service.loading.plan import (
    EVERYTHING,
    LESS,
    NOTHING,
    REMOVAL,
    LossAcceptance,
    ReloadPlan,
    is_too_weak,
    plan_reload,
)
from hooklatch.service.loading.plugins import Discovery, Plugin
from hooklatch.service.loading.see import DeclaredFile, Manifests, ObservedFiles, SeenFile
from hooklatch_worker.wire import Isolation
from support.tables import table

MAIN, FOLDER, FILE = "/c/hooks.toml", "/c/hooks.d", "/c/hooks.d/a.toml"
ISOLATION = Settings().isolation


def config(path: str = FILE, *ids: str, event: str = "pre_tool_use", **rest: object) -> FileConfig:
    tables = [{"id": name, "event": event, "run": "/c/guards.py:no"} for name in ids]
    # type: ignore[arg-type]
    return FileConfig(path, hooks=[hook for table in tables for hook in read_definition(table)], **rest)


LSP = read_lsp(LspTable(), "/c").hooks[0]
OLD, NEW, EMPTY = config(FILE, "old"), config(FILE, "new"), config()
BROKEN = Diagnostic(FILE, 3, "not TOML")
LOST = config(FILE, "new", diagnostics=[Diagnostic(FILE, 7, "an entry cannot be told")])
UNKNOWN = config(FILE, "new", event="no_such_event")
SHORT = PathFault("no descriptor is left", is_passing=True)
CLOSED = PathFault("no permission")
MANIFEST = {FILE: [ManifestHook("old", "pre_tool_use")]}
BY_NAME, ANOTHER = LossAcceptance(removed=frozenset({FILE})), LossAcceptance(removed=frozenset({"/c/hooks.d/b.toml"}))


def seen(
    file: SeenFile = EMPTY, *, listing: DirectoryNames | PathAbsent | PathFault | None = None,
    main: SeenFile | None = None,
    packages: Discovery | None = None, manifests: Manifests | None = None,
) -> ObservedFiles:  # fmt: skip
    return ObservedFiles(
        listing or DirectoryNames(["a.toml"]), {MAIN: main or PathAbsent(), FILE: file},
        packages or Discovery(), manifests or {},
    )  # fmt: skip


def active(*known: FileConfig, main: FileConfig | None = None, **rest: Any) -> ReloadPlan:
    return ReloadPlan(main=main or FileConfig(MAIN), files=[DeclaredFile(one.path, one) for one in known], **rest)


def taken(found: ReloadPlan, path: str = FILE) -> FileConfig | None:
    (file,) = [file for file in found.files if file.path == path]
    return file.config


@table(
    ("known", "is_remembered", "there", "accepts", "version", "said"),
    [
        (None, False, NEW, NOTHING, NEW, ""),
        (OLD, True, NEW, NOTHING, NEW, ""),
        (None, False, EMPTY, NOTHING, EMPTY, ""),
        # what is not there counts as empty where it never was in force
        (None, False, PathAbsent(), NOTHING, EMPTY, ""),
        *[
            (known, True, PathAbsent(), accepts, known, REMOVAL)
            for known in (OLD, None)
            for accepts in (NOTHING, LESS, ANOTHER)
        ],
        # what has lost its hooks waits for somebody who accepts less
        (OLD, True, EMPTY, NOTHING, OLD, "is empty now"),
        (None, True, EMPTY, NOTHING, None, "is empty now"),
        (OLD, True, EMPTY, BY_NAME, OLD, "is empty now"),
        (OLD, True, EMPTY, LESS, EMPTY, ""),
        (OLD, True, LOST, NOTHING, OLD, "accept the file as it is"),
        (OLD, True, LOST, LESS, LOST, ""),
        (None, False, LOST, NOTHING, LOST, ""),
        # what is wrong or cannot be read is accepted by nobody
        *[
            (known, is_remembered, there, accepts, known, text)
            for there, text in ((BROKEN, "not TOML"), (SHORT, "no descriptor"), (CLOSED, "no permission"),
                                (UNKNOWN, "no event"))
            for known, is_remembered in ((None, False), (None, True), (OLD, True))
            for accepts in (NOTHING, EVERYTHING, BY_NAME)
        ],
    ],
)  # fmt: skip
def test_which_version_of_a_file_is_taken(
    known: FileConfig | None,
    is_remembered: bool,
    there: SeenFile,
    accepts: LossAcceptance,
    version: FileConfig | None,
    said: str,
) -> None:
    before = active(*([known] if known else []))

    found = plan_reload(before, seen(there, manifests=MANIFEST if is_remembered else {}), accepts)

    assert taken(found) == version
    assert (FILE in found.vanished, found.removed) == (said == REMOVAL, [])
    assert [said in str(one) for one in found.diagnostics] == ([True] if said else [])


@pytest.mark.parametrize(
    ("listing", "accepts", "version"),
    [
        (PathAbsent(), NOTHING, OLD),
        (PathAbsent(), LESS, OLD),
        (PathFault("no permission"), NOTHING, OLD),
        (PathFault("no permission"), EVERYTHING, OLD),
        (DirectoryNames([]), NOTHING, OLD),
        (DirectoryNames([]), LESS, OLD),
    ],
)
def test_without_a_listing_what_was_in_force_stays(
    listing: DirectoryNames | PathAbsent | PathFault,
    accepts: LossAcceptance,
    version: FileConfig,
) -> None:
    what = seen(PathAbsent() if isinstance(listing, DirectoryNames) else CLOSED, listing=listing, manifests=MANIFEST)

    found = plan_reload(active(OLD, FileConfig(FOLDER)), what, accepts)

    assert taken(found) == version
    assert found.diagnostics


@pytest.mark.parametrize("accepts", [EVERYTHING, BY_NAME])
@pytest.mark.parametrize("known", [[OLD], []])
def test_what_the_listing_lacks_is_let_go_and_named_where_somebody_accepts_it(
    known: list[FileConfig], accepts: LossAcceptance
) -> None:
    found = plan_reload(active(*known), seen(PathAbsent(), listing=DirectoryNames([]), manifests=MANIFEST), accepts)

    assert [file.path for file in found.files] == [MAIN, FOLDER]
    assert (found.removed, found.vanished, found.diagnostics) == ([FILE], set(), [])


def test_a_removal_by_name_leaves_everything_else_that_has_vanished() -> None:
    main, remembered = FileConfig(MAIN, settings=Settings(keeps_state=True)), {**MANIFEST, MAIN: [], FOLDER: []}
    what = seen(PathAbsent(), listing=PathAbsent(), main=PathAbsent(), manifests=remembered)

    found = plan_reload(active(main, FileConfig(FOLDER), OLD, main=main), what, BY_NAME)

    assert (found.removed, found.vanished) == ([FILE], {MAIN, FOLDER})
    assert found.main.settings.keeps_state


def test_what_never_was_there_is_not_removed() -> None:
    assert plan_reload(active(), seen(PathAbsent(), listing=PathAbsent()), EVERYTHING).removed == []


@pytest.mark.parametrize(("fault", "is_to_retry"), [(SHORT, True), (CLOSED, False), (BROKEN, False)])
def test_only_what_may_pass_by_itself_is_tried_again(fault: PathFault | Diagnostic, is_to_retry: bool) -> None:
    assert plan_reload(active(OLD), seen(fault), NOTHING).is_to_retry is is_to_retry


def test_without_a_sound_main_file_settings_and_overrides_stay_as_they_were() -> None:
    settings, overrides = Settings(keeps_state=True), [Override("plugin.x", {"enabled": False}, 1)]
    known = active(main=FileConfig(MAIN, settings=settings, overrides=overrides))

    found = plan_reload(known, seen(main=CLOSED, manifests={MAIN: []}), EVERYTHING)

    assert (found.main.settings, found.main.overrides, MAIN in found.good) == (settings, overrides, False)


def test_a_sound_main_file_says_how_the_daemon_runs() -> None:
    main = FileConfig(MAIN, builtin=[LSP], settings=Settings(keeps_state=True))

    found = plan_reload(active(), seen(main=main), NOTHING)

    assert MAIN in found.good
    assert found.main.settings.keeps_state
    assert list(found.wanted) == ["hooklatch_worker.lsp.diagnostics"]


@pytest.mark.parametrize(
    ("is_known", "faults", "accepts", "stays"),
    [
        (True, {}, NOTHING, True),
        (True, {}, LESS, True),
        (True, {}, EVERYTHING, False),
        (True, {}, LossAcceptance(removed=frozenset({"plugin:acme"})), False),
        (True, {}, BY_NAME, True),
        (True, {"/site": CLOSED}, EVERYTHING, True),
        (False, {}, NOTHING, True),
        (False, {}, LESS, True),
    ],
)
def test_a_plugin_that_had_hooks_stays_until_somebody_accepts_that_it_is_gone(
    is_known: bool,
    faults: dict[str, PathFault],
    accepts: LossAcceptance,
    stays: bool,
) -> None:
    known = {"acme": Plugin("acme", "acme_hooks")} if is_known else {}
    remembered = {"plugin:acme": [ManifestHook("acme.no", "pre_tool_use")]}
    what = seen(packages=Discovery({}, faults, set()), manifests=remembered)

    found = plan_reload(active(plugins=known), what, accepts)

    assert [plugin.name for plugin in found.plugins.values()] == ["acme"] * stays
    assert (found.vanished, found.removed) == (
        {"plugin:acme"} if stays and not faults else set(), [] if stays else ["plugin:acme"]
    )  # fmt: skip


def test_a_source_is_wanted_once_with_the_workers_that_somebody_gave_it() -> None:
    tables = [SourceTable(path="/c/guards.py", workers=5), SourceTable(module="acme")]

    found = plan_reload(active(), seen(msgspec.structs.replace(NEW, sources=tables)), NOTHING)

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

    assert is_too_weak(at(held) if held else None, at(wanted)) is goes


@pytest.mark.parametrize(
    ("there", "accepts", "remembered"),
    [
        (EMPTY, LESS, {MAIN: [], FOLDER: [], FILE: []}),  # accepted: it holds no hooks from now on
        (PathAbsent(), EVERYTHING, {MAIN: [], FOLDER: []}),  # accepted: nobody needs to remember it
        (PathAbsent(), NOTHING, {MAIN: [], FOLDER: [], **MANIFEST}),
        (PathAbsent(), LESS, {MAIN: [], FOLDER: [], **MANIFEST}),
        (BROKEN, EVERYTHING, {MAIN: [], FOLDER: [], **MANIFEST}),
    ],
)
def test_what_a_later_start_knows_of_a_file(
    there: SeenFile,
    accepts: LossAcceptance,
    remembered: dict[str, list[ManifestHook]],
) -> None:
    before = {"/another/hooks.toml": [ManifestHook("x", "stop")], **MANIFEST}
    what = seen(there, main=FileConfig(MAIN), manifests=before)
    found = plan_reload(active(OLD), what, accepts)
    layers = BuiltLayers([], {}, [], {MAIN: [], FOLDER: []} | ({FILE: []} if there is EMPTY else {}))
    kept = () if found.good.get(FILE) is EMPTY or FILE in found.absent else (FILE,)

    after = list_manifests(before, found, layers, kept)

    assert after == {"/another/hooks.toml": before["/another/hooks.toml"], **remembered}

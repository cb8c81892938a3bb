"""The files of the machine on each system: both rows of the table are read here, on whichever system this is."""

from __future__ import annotations

import argparse
import json
import plistlib
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from hooklatch.cli.hosts import install
from hooklatch.cli.hosts.effective import EffectiveSettings, judge_layers
from hooklatch.cli.hosts.layouts import LAYOUTS, SettingsLayout, make_layouts
from hooklatch.cli.hosts.machine_files import MACHINE_FILES, MachineFiles, System, name_system
from hooklatch.cli.hosts.managed import make_managed_texts
from hooklatch.cli.hosts.others import Document, Layer, read_documents
from hooklatch.cli.terminal.parser import CommandError
from hooklatch.hosts.find import find_host
from support.repository import ROOT
from support.tables import table

SUPPORT = "/Library/Application Support"
MAC = {
    "claude-code": f"{SUPPORT}/ClaudeCode/managed-settings.json", "codex": "/etc/codex/requirements.toml",
    "gemini": f"{SUPPORT}/GeminiCli/settings.json", "copilot": "/etc/github-copilot/policy.d/hooklatch.json",
    "cursor": f"{SUPPORT}/Cursor/hooks.json", "opencode": f"{SUPPORT}/opencode/opencode.json",
    "qwen": f"{SUPPORT}/QwenCode/settings.json", "grok": "/etc/grok/requirements.toml",
    "auggie": "/etc/augment/settings.json", "droid": f"{SUPPORT}/Factory/settings.json",
}  # fmt: skip
SYSTEMS: tuple[System, ...] = ("linux", "darwin")


def documents_of(layout: SettingsLayout, folder: Path, *read: str) -> list[Document]:
    machine = MachineFiles(read=tuple(f"{folder}/{pattern}" for pattern in read))
    return [
        each for each in read_documents(replace(layout, machine=machine), {}, "/nowhere") if each.layer == "managed"
    ]


@table("system", SYSTEMS)
def test_the_page_has_each_of_them(system: System) -> None:
    page = (ROOT / "docs/reference/layers.md").read_text()

    assert [
        name for name, each in make_layouts(system).items() if f"`{each.managed}`" not in page and each.managed
    ] == []


@table("system", SYSTEMS)
def test_each_system_has_a_row_for_every_program(system: System) -> None:
    assert make_layouts(system).keys() == MACHINE_FILES[system].keys() == LAYOUTS.keys()


def test_each_program_on_a_mac_has_the_file_that_it_names_itself() -> None:
    assert {name: each.managed for name, each in make_layouts("darwin").items() if each.managed} == MAC


def test_only_linux_has_nothing_that_is_not_known() -> None:
    unknown = {
        system: {name for name, each in MACHINE_FILES[system].items() if not each.is_known} for system in SYSTEMS
    }

    assert unknown == {"linux": set(), "darwin": {"goose"}}


@table("system", SYSTEMS)
def test_what_is_installed_is_among_the_files_that_doctor_reads(system: System, tmp_path: Path) -> None:
    for layout in make_layouts(system).values():
        folders = {Path(pattern).parent for pattern in layout.machine.read}

        assert {Path(path).parent for path in layout.managed_files} <= folders


@table("system", SYSTEMS)
def test_a_managed_plugin_is_named_by_an_address_that_leads_to_it(system: System) -> None:
    layout = make_layouts(system)["opencode"]

    texts = make_managed_texts(layout, {}, "code")

    (address,) = json.loads(texts[layout.managed])["plugin"]
    assert texts[unquote(str(address).removeprefix("file://"))] == "code"


@table("system", SYSTEMS)
def test_where_no_file_is_known_a_managed_install_says_why(system: System) -> None:
    said = {"linux": "it has no settings that only root can write", "darwin": "is not known on macOS"}

    with pytest.raises(CommandError, match=said[system]):
        install.install_managed(find_host("goose"), make_layouts(system)["goose"], argparse.Namespace())


@table("system", SYSTEMS)
def test_doctor_says_of_a_layer_that_is_not_known_that_it_is_not_seen(system: System) -> None:
    settings = EffectiveSettings(find_host("goose"), make_layouts(system)["goose"], [], frozenset({"user"}))

    said = [finding.what for finding in judge_layers(settings)]

    assert any("not known on macOS, so hooks there are not seen" in what for what in said) == (system == "darwin")


@table(
    ("said", "is_named"),
    [
        ({}, True),
        ({"user": False}, False),
        ({"user": False, "project": True}, True),
        ({"managed": False, "user": True}, False),
    ],
)
def test_doctor_names_terminals_that_the_model_of_codex_may_write_to(said: dict[Layer, bool], is_named: bool) -> None:
    documents = [
        Document(layer, f"/{layer}.toml", {"features": {"unified_exec_tty": on}}) for layer, on in said.items()
    ]
    settings = EffectiveSettings(find_host("codex"), make_layouts("linux")["codex"], documents, frozenset({"user"}))

    found = [finding.what for finding in judge_layers(settings)]

    assert any("write_stdin" in what for what in found) == is_named


@table("form", [plistlib.FMT_XML, plistlib.FMT_BINARY])
def test_the_profile_of_a_device_is_read_as_settings(form: plistlib.PlistFormat, tmp_path: Path) -> None:
    keys = {"PayloadType": "com.anthropic.claudecode", "allowManagedHooksOnly": True}
    (tmp_path / "com.anthropic.claudecode.plist").write_bytes(plistlib.dumps(keys, fmt=form))
    layout = make_layouts("darwin")["claude-code"]

    found = documents_of(layout, tmp_path, "com.anthropic.claudecode.plist")

    assert [each.value for each in found] == [{"allowManagedHooksOnly": True}]
    assert EffectiveSettings(find_host("claude-code"), layout, found, frozenset()).turns_others_off


@table(
    "name, file, data, fault",
    [
        (
            "codex",
            "com.openai.codex.plist",
            plistlib.dumps({"requirements_toml_base64": ""}),
            "a form that is not read",
        ),
        ("claude-code", "com.anthropic.claudecode.plist", b"no list", "com.anthropic.claudecode.plist: "),
        ("claude-code", "com.anthropic.claudecode.plist", b"<plist><date>x</date></plist>", "claudecode.plist: "),
    ],
)
def test_a_profile_that_cannot_be_read_is_a_fault_and_not_absent(
    name: str, file: str, data: bytes, fault: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(data)

    (found,) = documents_of(make_layouts("darwin")[name], tmp_path, file)

    assert fault in found.fault


def test_each_system_has_a_row() -> None:
    assert [name_system(platform) for platform in ("linux", "darwin")] == ["linux", "darwin"]

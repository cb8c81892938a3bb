"""What settings leave our entries out, and what is only said to: each row as the program was seen to take it."""

from __future__ import annotations

from typing import Any

from hooklatch.cli.hosts.effective import EffectiveSettings, judge_switches
from hooklatch.cli.hosts.layouts import make_layouts
from hooklatch.cli.hosts.others import Document, Layer
from hooklatch.hosts.find import find_host
from support.tables import table

OFF = {"disableAllHooks": True}
ENTRY = "/x/hooklatch-entry copilot preToolUse --kind gate --wait 1"
OURS = {"preToolUse": [{"type": "command", "bash": ENTRY}]}
THEIRS = {"preToolUse": [{"type": "command", "bash": "lint"}]}
POLICY = "/etc/github-copilot/policy.d/x.json"
MACHINE = "/etc/github-copilot/managed-settings.json"


def words_of(name: str, documents: list[Document], layer: Layer = "user") -> list[str]:
    settings = EffectiveSettings(find_host(name), make_layouts("linux")[name], documents, frozenset({layer}))
    return [finding.what.partition(":")[0] for finding in judge_switches(settings) if finding.is_problem]


@table(
    ("layer", "path", "value", "trusts", "is_dead"),
    [
        ("project", "/srv/p/.claude/settings.json", OFF, ["/srv"], True),
        ("project", "/srv/p/.github/copilot/settings.local.json", OFF, ["/elsewhere", "/srv/p"], True),
        ("project", "/srv/p/.claude/settings.json", OFF, ["/srv/pp"], False),
        ("project", "/srv/p/.claude/settings.json", {"disableAllHooks": "true"}, ["/srv"], False),
        ("project", "/srv/p/.github/hooks/x.json", {**OFF, "hooks": THEIRS}, ["/srv"], False),
        ("project", "/srv/p/more/x.json", {**OFF, "hooks": THEIRS}, ["/srv"], False),
        ("project", "/srv/p/.github/hooks/settings-of-lint.json", {**OFF, "hooks": THEIRS}, ["/srv"], False),
        ("project", "/srv/p/.claude/settings.json", OFF, ["/"], True),
        ("project", "/srv/p/.claude/settings.json", OFF, ["a\0b", "\ud800", 7], False),
        ("user", "/home/me/.copilot/hooks/settings-x.json", {**OFF, "hooks": OURS}, [], True),
        ("project", "/srv/p/.github/hooks/hooklatch.json", {**OFF, "hooks": OURS}, ["/srv"], True),
        ("user", "/home/me/.copilot/hooks/hooklatch.json", {**OFF, "hooks": OURS}, [], True),
        ("user", "/home/me/.copilot/hooks/x.json", {**OFF, "hooks": THEIRS}, [], False),
        ("user", "/home/me/.copilot/settings.json", OFF, ["/srv"], False),
        ("managed", POLICY, OFF, [], False),
        ("managed", MACHINE, OFF, [], False),
    ],
)
def test_copilot_heeds_disable_all_hooks_in_some_files_alone(
    layer: Layer, path: str, value: dict[str, Any], trusts: list[str], is_dead: bool
) -> None:
    trusted = Document("user", "/home/me/.copilot/config.json", {"trustedFolders": trusts})
    document = Document(layer, path, value, project="/srv/p" if layer == "project" else "")

    assert words_of("copilot", [trusted, document]) == (["DEAD"] if is_dead else [])
    assert words_of("copilot", [trusted, document], "managed") == []


@table(
    ("name", "path", "value", "off"),
    [
        ("copilot", MACHINE, {"allowManagedHooksOnly": True}, ["user", "project", "plugin"]),
        ("copilot", MACHINE, {"strictPluginOnlyCustomization": True}, ["user", "project"]),
        ("copilot", MACHINE, {"strictPluginOnlyCustomization": ["skills", "hooks"]}, ["user", "project"]),
        ("copilot", MACHINE, {"strictPluginOnlyCustomization": ["skills"]}, []),
        ("copilot", POLICY, {"allowManagedHooksOnly": True}, []),
        (
            "claude-code",
            "/etc/claude-code/managed-settings.json",
            {"strictPluginOnlyCustomization": 1},
            ["user", "project"],
        ),
        ("gemini", "/etc/gemini-cli/settings.json", {"strictPluginOnlyCustomization": True}, []),
        ("codex", "/etc/codex/requirements.toml", {"allow_managed_hooks_only": True}, ["user", "project", "plugin"]),
    ],
)
def test_managed_settings_turn_layers_off(name: str, path: str, value: dict[str, Any], off: list[Layer]) -> None:
    documents = [Document("managed", path, value)]
    settings = EffectiveSettings(find_host(name), make_layouts("linux")[name], documents, frozenset({"user"}))
    layers: tuple[Layer, ...] = ("managed", "user", "project", "plugin")

    assert [layer for layer in layers if settings.is_off(layer)] == off

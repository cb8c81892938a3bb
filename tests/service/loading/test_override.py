"""[[override]]: an operator's word over hooks of packages and of our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.daemons import Client, Daemon
from support.packages import install
from support.shared_daemon import daemon_in_thread


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon beside an installed plugin; each test writes the whole configuration that it needs."""
    packages = tmp_path_factory.mktemp("packages")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(str(packages))
        install(packages, "acme-plugin", "acme_overridden")
        with daemon_in_thread(tmp_path_factory.mktemp("d"), {}) as daemon:
            yield daemon


async def reloaded(daemon: Daemon, text: str) -> list[dict[str, Any]]:
    daemon.write("hooks.toml", text)
    async with daemon.administrator() as admin:
        diagnostics: list[dict[str, Any]] = (await admin.call("reload"))["diagnostics"]
        return diagnostics


async def hook(client: Client, hook_id: str) -> dict[str, Any]:
    (found,) = [one for one in (await client.call("hooks"))["hooks"] if one["id"] == hook_id]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("enabled = false", "state", "disabled"),
        ("priority = 900", "priority", 900),
        ("timeout = 0.5", "timeout", 0.5),
        ("observe = true", "observe", True),
        ("optional = true", "optional", True),
        ("amends = true", "amends", True),
        ("only_judges = true", "only_judges", True),
    ],
)
async def test_a_plugins_hook_is_changed(daemon: Daemon, line: str, key: str, value: object) -> None:
    found = await reloaded(daemon, f'[[override]]\nid = "acme-plugin.no_bash"\n{line}\n')

    async with daemon.session() as client:
        assert found == []
        assert (await hook(client, "acme-plugin.no_bash"))[key] == value


async def test_a_personality_that_nearly_names_a_plugin_is_told_so(daemon: Daemon) -> None:
    wrong, right, other = [
        await reloaded(daemon, f'[personality.coder]\nplugins = ["{name}"]\n')
        for name in ("acme-plugn", "acme-plugin", "of-a-client")
    ]

    text = "[personality.coder] names the plugin 'acme-plugn', which is not there; did you mean 'acme-plugin'?"
    assert [one["message"] for one in wrong] == [text]
    assert right == other == []


async def test_taking_it_away_brings_back_what_the_plugin_says(daemon: Daemon) -> None:
    await reloaded(daemon, '[[override]]\nid = "acme-plugin.no_bash"\nenabled = false\n')
    async with daemon.session() as client:
        assert (await client.fire_tool("Bash"))["verdict"] == "pass"

        await reloaded(daemon, "")

        assert (await client.fire_tool("Bash"))["verdict"] == "deny"


async def test_it_reaches_a_built_in_hook(daemon: Daemon) -> None:
    await reloaded(daemon, '[lsp]\n[[override]]\nid = "lsp"\nenabled = false\n')

    async with daemon.session() as client:
        assert (await hook(client, "lsp"))["state"] == "disabled"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('\n[[override]]\nid = "acme-plugin.no_bahs"\nenabled = false\n', 2, "did you mean 'acme-plugin.no_bash'?"),
        ('[[override]]\nid = "acme-plugin.audit"\nenable = false\n', 3, "did you mean 'enabled'?"),
        ('[[override]]\nid = "acme-plugin.audit"\ntimeout = 0\n', 3, "seconds, not milliseconds"),
        ('[[override]]\nid = "acme-plugin.audit"\npriority = "high"\n', 3, "priority is a whole number"),
        ('[lsp]\n[[override]]\nid = "lsp"\namends = true\n', 2, "nothing to amend"),
        ('[lsp]\n[[override]]\nid = "lsp"\nonly_judges = true\n', 2, "nothing to judge"),
        ("[[override]]\nenabled = false\n", 1, 'this override has no id; write id = "acme-plugin.audit"'),
        ("[override]\n", 1, "write [[override]], with two brackets"),
    ],
)
async def test_what_is_wrong_is_a_diagnostic(daemon: Daemon, text: str, line: int, message: str) -> None:
    assert await reloaded(daemon, "") == []

    (problem,) = await reloaded(daemon, text)

    assert problem["line"] == line
    assert message in problem["message"]


async def test_a_hook_of_the_operators_own_is_changed_where_it_stands(daemon: Daemon) -> None:
    assert await reloaded(daemon, "") == []
    daemon.write("hooks.d/own.py", "from hooklatch_worker import hook\n@hook('stop')\ndef f(event): pass\n")

    (problem,) = await reloaded(daemon, '[[override]]\nid = "own:f"\nenabled = false\n')

    assert "no built-in hook and no hook of a plugin has the id 'own:f'" in problem["message"]

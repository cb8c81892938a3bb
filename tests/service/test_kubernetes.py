"""What the DaemonSet stands on: its commands are commands, its volumes are there, and what it prepares is accepted.

No cluster runs it here: the shell text of its first container is run in folders of the test.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hooklatch.cli.commands import build_command_line
from hooklatch.fleet.signing import make_key
from support.commands import PROGRAM
from support.repository import ROOT

FILE = ROOT / "packaging" / "kubernetes" / "daemonset.yaml"
DOCUMENTS: list[dict[str, Any]] = [*yaml.safe_load_all(FILE.read_text())]
CONFIG_MAP, DAEMON_SET = DOCUMENTS
POD: dict[str, Any] = DAEMON_SET["spec"]["template"]["spec"]
CONTAINERS: list[dict[str, Any]] = [*POD["initContainers"], *POD["containers"]]
PREPARE, DAEMON, LINK = CONTAINERS


def test_its_pods_are_those_that_it_looks_for() -> None:
    assert (DAEMON_SET["apiVersion"], DAEMON_SET["kind"], CONFIG_MAP["kind"]) == ("apps/v1", "DaemonSet", "ConfigMap")
    assert DAEMON_SET["spec"]["selector"]["matchLabels"] == DAEMON_SET["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(
    "words", [DAEMON["args"], LINK["args"], DAEMON["readinessProbe"]["exec"]["command"][1:]], ids=str
)
def test_its_commands_are_commands(words: list[str]) -> None:
    arguments = build_command_line().parse_args(words)

    assert arguments.command == words[0]
    assert getattr(arguments, "admin_dir", None) in ("/run/hooklatch-admin", None)


@pytest.mark.parametrize("container", [PREPARE, DAEMON, LINK], ids=lambda one: one["name"])
def test_each_container_mounts_what_there_is_and_may_do_no_more_than_it_must(container: dict[str, Any]) -> None:
    volumes = {volume["name"] for volume in POD["volumes"]}
    security = POD["securityContext"] | container["securityContext"]

    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    assert security["runAsNonRoot"] is (container is not PREPARE)
    assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True)
    assert security["capabilities"]["drop"] == ["ALL"]
    assert "memory" in container["resources"]["limits"]


def test_only_the_socket_of_agents_is_on_the_node_for_other_pods() -> None:
    on_node = {volume["hostPath"]["path"]: volume["name"] for volume in POD["volumes"] if "hostPath" in volume}
    folder = on_node["/run/hooklatch-ask"]
    admin = next(mount for mount in DAEMON["volumeMounts"] if mount["mountPath"] == "/run/hooklatch-admin")

    assert [mount["mountPath"] for mount in DAEMON["volumeMounts"] if mount["name"] == folder] == ["/run/hooklatch"]
    assert admin["name"] not in on_node.values()
    assert not [mount for mount in LINK["volumeMounts"] if mount["name"] == folder]


@pytest.mark.slow  # a command that starts a daemon
def test_what_it_prepares_is_accepted_by_the_daemon(tmp_path: Path) -> None:
    *shell, text = PREPARE["command"]
    text = text.replace("1000", str(os.geteuid()))
    for place in ("run/hooklatch", "state", "own", "hooks", "engine"):
        (tmp_path / place).mkdir(parents=True)
        text = re.sub(rf"(?<![\w/])/{place}\b", str(tmp_path / place), text)
    hooks = CONFIG_MAP["data"]["hooks.toml"]
    (key,) = re.findall(r"ed25519:[^\"]+", hooks)
    hooks = hooks.replace(key, make_key().public.text).replace("/config/", f"{tmp_path}/own/config/")
    (tmp_path / "hooks" / "hooks.toml").write_text(hooks)
    (tmp_path / "engine" / "password").write_text("secret")

    subprocess.run([*shell, text], env={**os.environ, "NODE": "node-1.example"}, check=True)
    config = tmp_path / "own" / "config"
    words = [*PROGRAM, "check", "--config", str(config / "hooks.toml")]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert 'host = "node-1.example"' in (config / "hooks.toml").read_text()
    assert {oct(path.stat().st_mode & 0o777) for path in config.iterdir()} == {"0o600"}
    assert {oct((tmp_path / name).stat().st_mode & 0o777) for name in ("own/admin", "own/config", "state")} == {"0o700"}

"""The TypeScript client as a package: what is in it, how it is added to a project, what its types let compile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import RealDaemon
from clients.programs import CLIENTS, command_of
from hooklatch.version import VERSION
from support.repository import ROOT
from support.survivors import nobody_survives
from support.tables import table

pytestmark = pytest.mark.slow  # npm, compilers and a daemon

PACKAGE = CLIENTS / "typescript"
TOOLS = PACKAGE / "node_modules"
PLACE = {"npm_config_offline": "true", "npm_config_audit": "false", "npm_config_fund": "false"}
OLDEST = 18

RUN = """
const registry = await ethos.openHookRegistry({ path: process.argv[2] });
registry.registerVoid("agent_done", (payload) => console.log(payload.at instanceof Date));
const guard = async ({ toolName }) => (toolName === "terminal" ? { error: "no shell" } : null);
registry.registerModifying("before_tool_call", guard);
await registry.fireVoid("agent_done", { sessionId: "s", text: "done", turnCount: 1, at: new Date() });
console.log((await registry.fireModifying("before_tool_call", { toolName: "terminal", args: {} })).error);
await registry.close();
const hooks = await reasonix.openHooks({ path: process.argv[2] });
const payload = { event: "PreToolUse", cwd: "/", toolName: "shell", toolArgs: {} };
const hook = { event: "PreToolUse", command: "exit 2", scope: "project", source: "x" };
console.log((await hooks.runHooks({ hooks: [hook], payload })).outcomes[0].hook === hook);
await hooks.close();
const session = await hooklatch.connect({ path: process.argv[2] });
console.log((await session.fire("pre_tool_use", { tool_name: "Shell", tool_input: { command: "rm -rf /" } })).verdict);
await session.close();
"""
SCRIPTS = {
    "import.mjs": """
import * as hooklatch from "hooklatch";
import * as ethos from "hooklatch/ethos";
import * as reasonix from "hooklatch/reasonix";
"""
    + RUN,
    "require.cjs": """
const hooklatch = require("hooklatch");
const ethos = require("hooklatch/ethos");
const reasonix = require("hooklatch/reasonix");
(async () => {"""
    + RUN
    + "})();\n",
}


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PACKAGE / "package.json").read_text())
    return found


def npm(folder: Path, *words: str) -> str:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    done = subprocess.run(
        ["npm", *words],
        cwd=folder,
        env={**os.environ, **PLACE},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nodes() -> dict[str, str]:
    """Return the programs of Node that there are, the oldest that the package names among them, by their versions."""
    found = {}
    for node in (str(TOOLS / "node/bin/node"), command_of("typescript")[0]):
        if Path(node).exists():
            version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            found[version] = node
    return found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealDaemon]:
    with nobody_survives():
        running = RealDaemon(tmp_path_factory.mktemp("daemon"))
        yield running
        running.end()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the package as it is in version control, without what was built or installed in it."""
    folder = tmp_path_factory.mktemp("checkout") / "typescript"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules", "*.tgz"))
    return folder


@pytest.fixture(scope="module")
def packed(checkout: Path) -> Path:
    (name,) = [entry["filename"] for entry in json.loads(npm(checkout, "pack", "--json"))]
    return checkout / str(name)


def project(folder: Path, package: Path) -> Path:
    """Make a project, and add the package to it."""
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "agent", "version": "1.0.0", "private": true}')
    npm(folder, "install", str(package))
    return folder


def test_the_package_says_what_its_registry_and_its_users_ask_for() -> None:
    own = manifest()

    assert own["version"] == VERSION
    assert own["engines"] == {"node": f">={OLDEST}"}
    assert (own["author"], own["license"]) == ("The hooklatch authors", "MIT")
    assert own["keywords"]
    assert not {"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} & own.keys()
    assert (PACKAGE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "Unreleased" in (PACKAGE / "CHANGELOG.md").read_text()


def test_the_package_has_its_source_its_types_and_nothing_else(checkout: Path) -> None:
    (entry,) = json.loads(npm(checkout, "pack", "--dry-run", "--json"))
    files = {file["path"] for file in entry["files"]}

    kept = {f"{name}/{path.name}" for name in ("src", "types") for path in (PACKAGE / name).iterdir()}
    assert files == {*kept, "package.json", "README.md", "CHANGELOG.md", "LICENSE"}
    for name in manifest()["exports"].values():
        for path in [name] if isinstance(name, str) else [one for way in name.values() for one in way.values()]:
            assert path.removeprefix("./") in files


def test_its_own_tests_pass(checkout: Path) -> None:
    npm(checkout, "test")


@pytest.mark.parametrize("way", ["packed", "checkout"])
def test_it_is_added_to_a_project_and_runs_by_import_and_by_require(
    way: str, request: pytest.FixtureRequest, tmp_path: Path, daemon: RealDaemon
) -> None:
    folder = project(tmp_path / "agent", request.getfixturevalue(way))

    said = {}
    for version, node in nodes().items():
        for name, text in SCRIPTS.items():
            (folder / name).write_text(text)
            done = subprocess.run(
                [node, name, daemon.path], cwd=folder, capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), (version, name)
            said[f"{name} by {version}"] = done.stdout.splitlines()

    assert set(map(tuple, said.values())) == {("true", "no shell", "true", "deny")}


def test_the_oldest_version_of_node_that_it_names_is_one_that_tests_run() -> None:
    if not (TOOLS / "node/bin/node").exists():
        pytest.skip(f"Node {OLDEST} is not installed (.ci/check-clients)")

    assert any(version.startswith(f"v{OLDEST}.") for version in nodes())


# -- types ------------------------------------------------------------------------------------------------------------

USE = """
import { connect, type Decision, type Session } from "hooklatch";
import { openHookRegistry, type HookRegistry } from "hooklatch/ethos";
import { formatHookOutcomeMessage, loadHooks, openHooks, type HookReport, type ResolvedHook } from "hooklatch/reasonix";

export async function agent(): Promise<string[]> {
  const session: Session = await connect({ host: "agent", path: undefined });
  session.on("lost", (error) => error.message).on("connected", () => undefined);
  const decision: Decision = await session.fire("pre_tool_use", { tool_name: "t" }, { signal: AbortSignal.timeout(1) });
  await session.serve("stop", (payload, call) => ({ verdict: payload.x ? "deny" : call.event }));
  const { refused } = await session.registerEach([]);
  await session.close();
  return [decision.explanation, ...refused.map(({ reason }) => reason)];
}

export async function ported(hooks: HookRegistry, isStrict: boolean): Promise<string | undefined> {
  hooks.registerVoid("agent_done", async (payload) => console.log(payload.sessionId.length, payload.turnCount + 1));
  hooks.registerVoid("after_tool_call", (payload) => console.log(payload.toolName));
  const build = async () => ({ prependSystem: "hi" });
  const off: () => void = hooks.registerModifying("before_prompt_build", build, { pluginId: "p" });
  hooks.registerModifying("before_tool_call", async (payload) => {
    if (payload.toolName !== "terminal") return null;
    const args = payload.args as { command: string };
    return { error: isStrict ? args.command : undefined };
  });
  hooks.registerClaiming("inbound_claim", async ({ message }) => {
    if (message.platform !== "telegram") return { handled: false };
    return { handled: true, reply: "hello" };
  });
  await hooks.fireVoid("agent_done", { sessionId: "s", text: "t", turnCount: 1, personalityId: undefined });
  await hooks.fireClaiming("inbound_claim", { message: { platform: "telegram", text: "x", sentAt: new Date() } });
  off();
  const { error, args } = await hooks.fireModifying("before_tool_call", { toolCallId: "c", toolName: "t", args: {} });
  return error ?? String(args);
}

export async function reasonix(anything: { event: string; [key: string]: unknown }): Promise<string[]> {
  const hooks = await openHooks();
  const list: ResolvedHook[] = [...(await loadHooks({ projectRoot: "." })), ...(await hooks.loadHooks())];
  const payload = { event: "PreToolUse", cwd: "/srv/app", toolName: "shell", toolArgs: { command: "ls" } } as const;
  const report: HookReport = await hooks.runHooks({ hooks: list, payload });
  await hooks.runHooks({ payload: anything });
  return report.outcomes.map((outcome) => formatHookOutcomeMessage(outcome));
}

export async function mistaken(hooks: HookRegistry): Promise<void> {
  // @ts-expect-error there is no such key
  hooks.registerVoid("agent_done", async (p) => console.log(p.turnCuont));
  // @ts-expect-error before_tool_call is a modifying point
  hooks.registerVoid("before_tool_call", async () => undefined);
  // @ts-expect-error there is no such point
  hooks.registerVoid("agent_dun", async () => undefined);
  // @ts-expect-error an error is a text
  hooks.registerModifying("before_tool_call", async () => ({ error: 5 }));
  // @ts-expect-error a claim says whether it was handled
  hooks.registerClaiming("inbound_claim", async () => ({ handeld: true }));
  // @ts-expect-error a number of turns is missing
  await hooks.fireVoid("agent_done", { sessionId: "s", text: "t" });
  // @ts-expect-error the name of the tool is missing
  await hooks.fireModifying("before_tool_call", { toolNmae: "t", args: {} });
  // @ts-expect-error a result has no such key
  console.log((await hooks.fireModifying("before_tool_call", { toolName: "t", args: {} })).eror);
  // @ts-expect-error an event's keys are known
  await (await openHooks()).runHooks({ payload: { event: "PreToolUse", toolNmae: "shell" } });
  // @ts-expect-error the hooks are a promise's
  (await openHooks()).runHooks({ hooks: loadHooks(), payload: { event: "Stop" } });
}

export const registry: Promise<HookRegistry> = openHookRegistry();
"""
STRICT = {
    "strict": True, "exactOptionalPropertyTypes": True, "noUncheckedIndexedAccess": True, "noImplicitOverride": True,
    "noPropertyAccessFromIndexSignature": False, "skipLibCheck": False, "noEmit": True, "target": "ES2022",
}  # fmt: skip
PROJECTS = {
    "NodeNext, for import": ("agent.mts", {"module": "NodeNext", "moduleResolution": "NodeNext"}),
    "NodeNext, for require": ("agent.cts", {"module": "NodeNext", "moduleResolution": "NodeNext"}),
    "a bundler": ("agent.ts", {"module": "ESNext", "moduleResolution": "Bundler"}),
    "the oldest resolution": (
        "agent.ts",
        {"module": "CommonJS", "moduleResolution": "Node10", "ignoreDeprecations": "5.0"},
    ),
}


@pytest.fixture(scope="module")
def added(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("types") / "agent", packed)


@table("name, file, options", [(name, *given) for name, given in PROJECTS.items()], ids=PROJECTS)
def test_strict_users_compile_and_mistakes_do_not(added: Path, name: str, file: str, options: dict[str, str]) -> None:
    if not (TOOLS / ".bin/tsc").exists():
        pytest.skip("the compiler is not installed (.ci/check-clients)")
    (added / file).write_text(USE)
    types = {"typeRoots": [str(TOOLS / "@types")], "types": ["node"]}
    (added / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": {**STRICT, **types, **options}, "files": [file]})
    )

    done = subprocess.run([str(TOOLS / ".bin/tsc"), "-p", "."], cwd=added, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")

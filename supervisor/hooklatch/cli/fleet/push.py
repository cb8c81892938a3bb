"""The command `fleet push`: make a folder of hooks a version, if it is clean, builds, and passes its cases.

read the folder ─▶ clean in git? ─▶ build the hooks, fire the cases ─▶ bundle ─▶ verify the log
    ─▶ does it take hooks away? ─▶ sign ─▶ commit
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Iterable

import msgspec

from hooklatch.cli.fleet import access
from hooklatch.cli.fleet.rollout import (
    add_pace,
    parse_observing,
    read_rollout_goal,
    report_interruption,
    roll_out,
)
from hooklatch.cli.fleet.trial import try_out
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.testing.cases import Case, read_cases
from hooklatch.cli.testing.running import CaseResult
from hooklatch.core.text import format_count
from hooklatch.fleet.manifests import DEFAULT_POLICY, NAME, Bundle, FleetError, Manifest, RolloutTarget, encode_bundle
from hooklatch.fleet.publishing.folder import PolicyFolder, check_clean, read_folder
from hooklatch.fleet.publishing.publisher import Publisher, PushOutput
from hooklatch.fleet.publishing.versions import (
    BelievedVersion,
    StoredVersion,
    VersionDraft,
    VersionHistory,
    check_labels,
    describe_unbelieved,
    find_observe_end,
    format_labels,
    format_policy,
    format_rollout,
    list_in_force,
)
from hooklatch.fleet.reports import HostReport
from hooklatch.fleet.settings import NEEDS_TIMER

__all__ = ["add_push"]

SHOWN = 8  # hosts that a message names
EXAMPLE = "hooklatch fleet push hooks/ --to rediss://engine.example --fleet acme --key fleet.key --steps 1,10,50,100"


def add_push(parser: Parser) -> None:
    parser.runs(run_fleet_push, example=EXAMPLE, exits=(*access.EXITS, Exit.FINDINGS, Exit.CONFLICT))
    parser.prints("fleet.publishing.publisher:PushOutput")
    parser.add_argument("folder", metavar="DIR", help="the hooks, as in hooks.d; policy-tests.toml beside them is run")
    parser.add_argument(
        "--policy", metavar="NAME",
        help="the policy that this is a version of (default: default); all policies of a host hold together",
    )  # fmt: skip
    parser.add_argument("--label", metavar="NAME", action="append", default=[], help="only for hosts with this label")
    parser.add_argument("--message", metavar="TEXT", help="what changes, for people (default: the commit)")
    parser.add_argument("--allow-dirty", action="store_true", help="also push what is not committed in git")
    parser.add_argument(
        "--removes", metavar="HOOK", action="append", default=[],
        help="a hook that hosts have, and that this push may take away; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--allow-empty", action="store_true", help="also push a folder without a hook, which ends the policy"
    )
    parser.add_argument(
        "--observe", metavar="TIME", type=parse_observing,
        help="hosts only observe it for so long, and then enforce it by themselves (see fleet observe)",
    )  # fmt: skip
    access.add_give_up(parser)
    add_pace(parser)
    access.add_access(parser, with_keys=True)


class PushCandidate(msgspec.Struct, frozen=True):
    """A folder that was checked and tested, and the bytes of its bundle."""

    folder: PolicyFolder
    data: bytes
    hooks: frozenset[str]
    commit: str | None
    tests: int


def run_fleet_push(arguments: argparse.Namespace) -> int:
    """Check a folder, and make it the newest version."""
    goal = read_rollout_goal(arguments)
    fleet_access = access.read_engine_access(arguments)
    key = fleet_access.signing_key
    try:
        labels = check_labels(arguments.label)
        candidate = prepare_push(arguments)
    except FleetError as error:
        raise access.make_command_error(error) from None
    settings = None if arguments.to else access.read_own_settings(arguments)
    if settings is not None and settings.needs_tests and not candidate.tests:
        raise CommandError(
            Exit.BAD_DATA,
            f"nothing was tested: {candidate.folder.path} has no policy-tests.toml, and [fleet] has needs_tests here;"
            " write tests, and push again",
        )
    message = arguments.message if arguments.message is not None else candidate.commit or ""
    report = output.print_error if arguments.json else output.print_line
    policy, compared = check_removals(arguments, fleet_access, candidate, RolloutTarget(labels, goal.percent))

    async def work(publisher: Publisher) -> tuple[Manifest, bool]:
        hosts = await publisher.hosts() if labels else {}
        if labels and not any(set(labels) <= set(heard.report.labels) for heard in hosts.values()):
            output.print_error(
                f"no host that has reported is labelled {' and '.join(labels)}: none will apply this as it is"
            )
        if list_in_force(publisher.history, policy, RolloutTarget(labels, goal.percent))[0] != compared:
            raise FleetError("the versions have changed just now, and nothing was pushed; push again")
        digest = await publisher.put(candidate.data)  # before the version that names it: a host may read that at once
        draft = VersionDraft(
            bundle=digest, size=len(candidate.data), rollout=RolloutTarget(labels), policy=policy,
            observe_until=find_observe_end(arguments.observe, time.time()),
        )  # fmt: skip
        return await roll_out(publisher, key, goal, draft, message=message, report=report, progress=progress)

    with report_interruption() as progress:
        manifest, is_new = access.run_publisher(fleet_access, work, gives_up=arguments.give_up)
    print_push(arguments, candidate, manifest, is_new=is_new)
    if settings is None or settings.when_stale == "deny":  # without [fleet] it is unknown what its hosts do
        output.print_error(f"note: {NEEDS_TIMER}")
    return Exit.OK


def prepare_push(arguments: argparse.Namespace) -> PushCandidate:
    folder = read_folder(arguments.folder)
    commit = None if arguments.allow_dirty else check_clean(folder.path, folder.names)
    data = encode_bundle(folder.bundle)
    cases = [case for name in folder.cases for case in read_folder_cases(folder, name)]
    trial = try_out(folder.bundle, cases, show_failure)
    trial.check()
    if not trial.hooks and not arguments.allow_empty:
        raise CommandError(
            Exit.BAD_DATA,
            f"{folder.path} declares no hook, so it would take all hooks of earlier versions away; if that is meant,"
            " give --allow-empty",
        )
    return PushCandidate(folder, data, frozenset(trial.hooks), commit, len(cases))


def check_removals(
    arguments: argparse.Namespace, fleet_access: access.EngineAccess, candidate: PushCandidate, target: RolloutTarget
) -> tuple[str, list[BelievedVersion]]:
    """Return the policy to push, and the versions of it that hosts of the target may have.

    Refuse a push that takes a hook from them that is not named with --removes.
    """

    async def look(publisher: Publisher) -> tuple[str, InForce]:
        policy = choose_pushed_policy(publisher.history, arguments.policy)
        believed, doubted = list_in_force(publisher.history, policy, target)
        bundles = [await publisher.bundle(of.manifest) for of in believed]
        reports = [received.report for received in (await publisher.hosts()).values()]
        return policy, InForce(believed, doubted, bundles, reports)

    try:
        policy, found = access.run_publisher(fleet_access, look, gives_up=arguments.give_up)
    except FleetError as error:
        raise access.make_command_error(error) from None
    if found.doubted:
        output.print_error(f"not compared with {describe_unbelieved(found.doubted[::-1])}: see hooklatch fleet diff")
    removed = {
        hook: format_holders(of.manifest, found.reports, target)
        for of, bundle in zip(found.believed, found.bundles, strict=True)
        for hook in list_hooks(of.manifest, bundle, candidate)
        if hook not in candidate.hooks
    }
    for hook, holders in removed.items():
        output.print_error(f"this takes the hook {hook} from {holders}")
    refused = [] if not candidate.hooks else [hook for hook in removed if hook not in arguments.removes]
    if refused:
        raise CommandError(
            Exit.BAD_DATA,
            f"nothing was pushed, as it would take hooks away{format_policy(policy)}; to add to what hosts have, give"
            f" it a --policy of its own; if it is to take them: {' '.join(f'--removes {hook}' for hook in refused)}",
        )
    return policy, found.believed


class InForce(msgspec.Struct, frozen=True):
    """The versions that hosts of a push may have, their bundles, and what hosts report."""

    believed: list[BelievedVersion]
    doubted: list[StoredVersion]
    bundles: list[Bundle]
    reports: list[HostReport]


def choose_pushed_policy(history: VersionHistory, name: str | None) -> str:
    """Return the name of the policy to push: the default one, unless the fleet has only named ones."""
    if name is not None and NAME.fullmatch(name) is None:
        raise FleetError(f"{name!r} cannot be a policy's name: letters, digits, '.', '_' and '-', at most 63")
    if name is None and history.policies and DEFAULT_POLICY not in history.policies:
        raise FleetError(f"say which policy with --policy; there are {', '.join(history.policies)}")
    if name is not None and history.policies and name not in history.policies:
        output.print_error(f"the policy {name} is new; it holds together with {', '.join(history.policies)}")
    return name if name is not None else DEFAULT_POLICY


def list_hooks(manifest: Manifest, bundle: Bundle, candidate: PushCandidate) -> list[str]:
    """Return the hooks of a version; one that stands for all of them if they are not known."""
    if bundle.files == candidate.folder.bundle.files:
        return []
    trial = try_out(bundle, [], show_failure)
    if trial.error is not None or trial.diagnostics:
        output.print_error(f"version {manifest.version} does not load here: {trial.error or trial.diagnostics[0]}")
        return [f"{manifest.version}:*"]
    return sorted(trial.hooks)


def format_holders(manifest: Manifest, reports: Iterable[HostReport], target: RolloutTarget) -> str:
    """Return for people which hosts of a target have a version, by their own reports."""
    names = sorted(
        report.host
        for report in reports
        if target.includes(report.host, report.labels) and report.bundles.get(manifest.policy) == manifest.bundle
    )
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    labels = sorted({*manifest.rollout.labels, *target.labels})
    return f"hosts{format_labels(labels)} with version {manifest.version} ({shown or 'none reports that'})"


def read_folder_cases(folder: PolicyFolder, name: str) -> list[Case]:
    """Read cases from the bytes that were read with the folder, since its files may have changed."""
    path = os.path.join(folder.path, name)
    return read_cases(path, folder.beside[name], os.path.dirname(path))


def show_failure(result: CaseResult) -> None:
    if result.differences:
        output.print_error(f"FAIL {result.case.name} ({result.case.place}): {'; '.join(result.differences)}")


def print_push(arguments: argparse.Namespace, candidate: PushCandidate, manifest: Manifest, *, is_new: bool) -> None:
    if not candidate.tests:
        output.print_error(f"nothing was tested: {candidate.folder.path} has no policy-tests.toml")
    digest = hashlib.sha256(candidate.data).hexdigest()
    if arguments.json:
        folder, named = candidate.folder, ("version", "policy", "rollout", "same_as", "message")
        output.say_json(PushOutput(
            **{name: getattr(manifest, name) for name in named}, is_new=is_new, bundle=digest,
            size=len(candidate.data), commit=candidate.commit, files=list(folder.bundle.files),
            left_out=folder.left_out, suspendable=folder.bundle.suspendable, cases=candidate.tests,
            observe_until=manifest.observe_until or None,
        ))  # fmt: skip
        return
    if candidate.folder.left_out:
        output.print_error(f"left out: {', '.join(candidate.folder.left_out)}")
    if not is_new:
        output.print_line(f"version {manifest.version} is this already; nothing was written")
        return
    files = format_count(len(candidate.folder.bundle.files), "file")
    output.print_line(
        f"{format_rollout(manifest)}, {files}, {len(candidate.data)} bytes, bundle {digest[:12]},"
        f" {format_count(candidate.tests, 'case')} passed"
    )

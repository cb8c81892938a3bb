"""The command `fleet push`: make a folder of hooks a version, if it is clean, builds, and passes its cases.

read the folder ─▶ clean in git? ─▶ build the hooks, fire the cases ─▶ bundle ─▶ verify the log ─▶ sign ─▶ commit
"""

from __future__ import annotations

import argparse
import hashlib
import os

import msgspec

from hooklatch.cli.fleet import access
from hooklatch.cli.fleet.rollout import add_pace, read_rollout_goal, report_interruption, roll_out
from hooklatch.cli.fleet.trial import try_out
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser
from hooklatch.cli.testing.cases import Case, read_cases
from hooklatch.cli.testing.running import CaseResult
from hooklatch.core.text import format_count
from hooklatch.fleet.bundles import encode_bundle
from hooklatch.fleet.manifests import FleetError, Manifest, RolloutTarget
from hooklatch.fleet.publishing.folder import PolicyFolder, check_clean, read_folder
from hooklatch.fleet.publishing.publisher import Publisher, PushOutput
from hooklatch.fleet.publishing.versions import VersionDraft, check_labels

__all__ = ["add_push"]

EXAMPLE = "hooklatch fleet push hooks/ --to rediss://engine.example --fleet acme --key fleet.key --steps 1,10,50,100"


def add_push(parser: Parser) -> None:
    parser.runs(run_fleet_push, example=EXAMPLE, exits=(*access.EXITS, Exit.FINDINGS, Exit.CONFLICT))
    parser.prints("fleet.publishing.publisher:PushOutput")
    parser.add_argument("folder", metavar="DIR", help="the hooks, as in hooks.d; policy-tests.toml beside them is run")
    parser.add_argument("--label", metavar="NAME", action="append", default=[], help="only for hosts with this label")
    parser.add_argument("--message", metavar="TEXT", help="what changes, for people (default: the commit)")
    parser.add_argument("--allow-dirty", action="store_true", help="also push what is not committed in git")
    parser.add_argument("--allow-empty", action="store_true", help="also push a folder without a hook")
    access.add_despite_hosts(parser)
    add_pace(parser)
    access.add_access(parser, with_keys=True)


class PushCandidate(msgspec.Struct, frozen=True):
    """A folder that was checked and tested, and the bytes of its bundle."""

    folder: PolicyFolder
    data: bytes
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
    message = arguments.message if arguments.message is not None else candidate.commit or ""
    report = output.print_error if arguments.json else output.print_line

    async def work(publisher: Publisher) -> tuple[Manifest, bool]:
        hosts = await publisher.hosts() if labels else {}
        if labels and not any(set(labels) <= set(heard.report.labels) for heard in hosts.values()):
            output.print_error(
                f"no host that has reported is labelled {' and '.join(labels)}: none will apply this as it is"
            )
        digest = await publisher.put(candidate.data)  # before the version that names it: a host may read that at once
        draft = VersionDraft(bundle=digest, size=len(candidate.data), rollout=RolloutTarget(labels))
        return await roll_out(publisher, key, goal, draft, message=message, report=report, progress=progress)

    with report_interruption() as progress:
        manifest, is_new = access.run_publisher(fleet_access, work, heeds_hosts=not arguments.despite_hosts)
    print_push(arguments, candidate, manifest, is_new=is_new)
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
    return PushCandidate(folder, data, commit, len(cases))


def read_folder_cases(folder: PolicyFolder, name: str) -> list[Case]:
    """Read cases from the bytes that were read with the folder, since its files may have changed."""
    path = os.path.join(folder.path, name)
    return read_cases(path, folder.beside[name], os.path.dirname(path))


def show_failure(result: CaseResult) -> None:
    if result.differences:
        output.print_error(f"FAIL {result.case.name} ({result.case.place}): {'; '.join(result.differences)}")


def print_push(arguments: argparse.Namespace, candidate: PushCandidate, manifest: Manifest, *, is_new: bool) -> None:
    digest = hashlib.sha256(candidate.data).hexdigest()
    if arguments.json:
        facts = PushOutput(
            version=manifest.version,
            is_new=is_new,
            bundle=digest,
            size=len(candidate.data),
            rollout=manifest.rollout,
            same_as=manifest.same_as,
            message=manifest.message,
            commit=candidate.commit,
            files=list(candidate.folder.bundle.files),
            left_out=candidate.folder.left_out,
            suspendable=candidate.folder.bundle.suspendable,
            cases=candidate.tests,
        )
        output.say_json(facts)
        return
    if not candidate.tests:
        output.print_error(f"nothing was tested: {candidate.folder.path} has no policy-tests.toml")
    if candidate.folder.left_out:
        output.print_error(f"left out: {', '.join(candidate.folder.left_out)}")
    if not is_new:
        output.print_line(f"version {manifest.version} is this already; nothing was written")
        return
    hosts = f"hosts labelled {' and '.join(manifest.rollout.labels)}" if manifest.rollout.labels else "all hosts"
    files = format_count(len(candidate.folder.bundle.files), "file")
    output.print_line(
        f"version {manifest.version}: {manifest.rollout.percent:g} % of {hosts}, {files}, {len(candidate.data)}"
        f" bytes, bundle {digest[:12]}, {format_count(candidate.tests, 'case')} passed"
    )

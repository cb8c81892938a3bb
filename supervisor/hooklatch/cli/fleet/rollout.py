"""The commands `fleet rollout` and `fleet rollback`: a version for more hosts, or an earlier bundle again.

Each makes a new version.  A push goes out by the same pace: at once, or in steps that hold.  Ctrl-C leaves a rollout at
its last step, and reports that.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from hooklatch.cli.fleet import access
from hooklatch.cli.fleet.history import FileChange, list_file_changes, say_file_changes
from hooklatch.cli.terminal import output
from hooklatch.cli.terminal.parser import CommandError, Exit, Parser, parse_duration
from hooklatch.cli.terminal.questions import ask_yes, may_ask
from hooklatch.core.text import format_count
from hooklatch.fleet.manifests import LONGEST_OBSERVING, Manifest, RolloutTarget
from hooklatch.fleet.publishing.publisher import Publisher
from hooklatch.fleet.publishing.rollout import Rollout as Ongoing
from hooklatch.fleet.publishing.rollout import RolloutPace, StopThreshold, find_cut, list_present_hosts
from hooklatch.fleet.publishing.versions import (
    NoVersionError,
    StoredVersion,
    VersionDraft,
    describe_unbelieved,
    find_standing_version,
    format_policy,
    format_rollback,
    format_rollout,
    list_in_force,
    list_passed_over,
    plan_observing,
    plan_push,
    plan_rollback,
    plan_wider_rollout,
)
from hooklatch.fleet.signing import PrivateKey

__all__ = [
    "Goal", "add_observe", "add_pace", "add_rollback", "add_rollout", "parse_observing", "read_rollout_goal",
    "report_interruption", "roll_out",
]  # fmt: skip


class Goal(msgspec.Struct, frozen=True):
    """The goal of a rollout: `percent` of the hosts at once, or by a `pace`."""

    percent: float
    pace: RolloutPace | None = None


@contextmanager
def report_interruption() -> Generator[list[Ongoing]]:
    """Print the step of the rollout that was put into the list, if there is one, when Ctrl-C ends the block, or an
    error whose own text does not have it.
    """
    progress: list[Ongoing] = []
    try:
        yield progress
    except (KeyboardInterrupt, CommandError) as error:
        if not isinstance(error, CommandError) or error.code not in (Exit.FINDINGS, Exit.CONFLICT):
            what = "the rollout ended early" if isinstance(error, CommandError) else "interrupted"
            for ongoing in progress:
                output.print_error(f"{what}{format_progress(ongoing.at)}")
        raise


def add_pace(parser: Parser, *, required: bool = False) -> None:
    """Add the options of a rollout."""
    pace = parser.add_argument_group("how wide, and how fast")
    width = pace.add_mutually_exclusive_group(required=required)
    width.add_argument(
        "--percent", metavar="N", type=parse_percentage, help="for this share of the hosts (default: 100)"
    )
    width.add_argument("--steps", metavar="N,N,…", type=parse_steps, help="for ever more of them: 1,10,50,100")
    hold = (
        "stop when the share of gates that are denied because a hook is broken is higher by this, on hosts that have"
        " the version (2%%)"
    )
    denials = "the same for all denials, also those of sound hooks (default: a version may deny more)"
    for name, metavar, kind, default, text in (
        ("--wait", "TIME", parse_duration, 300.0, "at least this long at a step (5m)"),
        ("--hold", "N%", parse_share, 2.0, hold),
        ("--hold-denials", "N%", parse_share, None, denials),
        ("--sample", "N", parse_count, 50, "decisions of such hosts that it takes to compare (50)"),
        ("--patience", "TIME", parse_duration, 3600.0, "stop when a step has not got them by then (1h)"),
    ):
        pace.add_argument(name, metavar=metavar, type=kind, default=default, help=text)


def parse_percentage(text: str) -> float:
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = 0.0
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage over 0 and up to 100")
    return number


def parse_share(text: str) -> float:
    return 0.0 if text.strip().removesuffix("%") in ("0", "0.0") else parse_percentage(text)


def parse_steps(text: str) -> tuple[float, ...]:
    numbers = tuple(parse_percentage(part) for part in text.split(","))
    if list(numbers) != sorted(set(numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} does not rise; write it like 1,10,50,100")
    return numbers


def parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0")
    return int(text)


def read_rollout_goal(arguments: argparse.Namespace) -> Goal:
    """Return the goal that the options give."""
    if arguments.steps is None:
        return Goal(arguments.percent if arguments.percent is not None else 100.0)
    denials = arguments.hold_denials / 100 if arguments.hold_denials is not None else None
    bound = StopThreshold(arguments.hold / 100, arguments.sample, denials)
    # A step that waits longer than its timeout would always be stopped.
    timeout = max(arguments.patience, arguments.wait)
    pace = RolloutPace(steps=arguments.steps, wait=arguments.wait, timeout=timeout, bound=bound)
    return Goal(arguments.steps[-1], pace)


async def roll_out(
    publisher: Publisher, key: PrivateKey, goal: Goal, draft: VersionDraft, *, message: str,
    report: Callable[[str], None], progress: list[Ongoing],
) -> tuple[Manifest, bool]:  # fmt: skip
    """Make a draft the newest version, as wide as the goal has it; return it, and whether it is new."""
    labels = draft.rollout.labels
    standing = find_standing_version(publisher.history, draft, labels)
    reached = standing.manifest.rollout.percent if standing is not None else 0.0
    hosts = list_present_hosts(await publisher.hosts(), labels)
    steps = tuple(step for step in goal.pace.steps if find_cut(hosts, step) > reached) if goal.pace is not None else ()
    target = RolloutTarget(labels, find_cut(hosts, steps[0] if steps else goal.percent))
    plan = plan_push(publisher.history, msgspec.structs.replace(draft, rollout=target), key=key.public.id)
    if isinstance(plan, Manifest):
        await publisher.try_to_stamp(key)
        return plan, False
    by = access.find_publisher_name()
    # Without a step that is wider, these hosts have the content already, by a version of another key.
    if goal.pace is None or not steps:
        return await publisher.commit(plan, key, publisher=by, message=message), True
    pace = msgspec.structs.replace(goal.pace, steps=steps)
    progress.append(Ongoing(publisher, key, pace, by=by, message=message, notify=report))
    return await progress[-1].run(plan), True


def format_progress(at: Manifest | None) -> str:
    if at is None:
        return "; `hooklatch fleet history` says whether the first step was written"
    return (
        f": version {at.version} stays at {at.rollout.percent:g} %; to go on, run: hooklatch fleet rollout"
        f" {at.version} --steps …; to take it back: {format_rollback(at.policy)}"
    )


LIKE_PUSH = (*access.EXITS, Exit.FINDINGS, Exit.CONFLICT)


def add_rollout(parser: Parser) -> None:
    parser.runs(run_fleet_rollout, example="hooklatch fleet rollout 7 --steps 50,100 --key fleet.key", exits=LIKE_PUSH)
    parser.prints("fleet.manifests:Manifest")
    parser.add_argument("version", metavar="VERSION", type=access.parse_version, help="see: hooklatch fleet history")
    parser.add_argument("--message", metavar="TEXT", default="", help="why, for people")
    access.add_give_up(parser)
    add_pace(parser, required=True)
    access.add_access(parser, with_keys=True)


def run_fleet_rollout(arguments: argparse.Namespace) -> int:
    """Give a version to more hosts."""
    goal, fleet_access = read_rollout_goal(arguments), access.read_engine_access(arguments)
    key = fleet_access.signing_key
    report = output.print_error if arguments.json else output.print_line

    async def work(publisher: Publisher) -> Manifest:
        plan = plan_wider_rollout(publisher.history, arguments.version, goal.percent)
        await publisher.bundle(publisher.history.find_believed(arguments.version).manifest)
        done, _ = await roll_out(
            publisher, key, goal, plan, message=arguments.message, report=report, progress=progress
        )
        return done

    with report_interruption() as progress:
        manifest = access.run_publisher(fleet_access, work, gives_up=arguments.give_up)
    print_rollout(arguments, manifest)
    return Exit.OK


def add_rollback(parser: Parser) -> None:
    parser.runs(
        run_fleet_rollback, example="hooklatch fleet rollback --key fleet.key", exits=(*access.EXITS, Exit.CONFLICT)
    )
    parser.prints("fleet.manifests:Manifest")
    parser.add_argument(
        "version", metavar="VERSION", nargs="?", type=access.parse_version,
        help="whose bundle it is to be (default: the newest before with another one, for all of these hosts)",
    )  # fmt: skip
    parser.add_argument("--policy", metavar="NAME", help="which policy is to go back (default: the only one)")
    parser.add_argument(
        "--label", metavar="NAME", action="append", help="for hosts with this label (default: those of the newest)"
    )
    parser.add_argument(
        "--resign", metavar="VERSION", type=access.parse_version,
        help="sign this version again although hosts do not list the key that signed it; look at its diff first",
    )  # fmt: skip
    parser.add_argument("--message", metavar="TEXT", default="", help="why, for people")
    access.add_give_up(parser)
    access.add_access(parser, with_keys=True)


def run_fleet_rollback(arguments: argparse.Namespace) -> int:
    """Make an earlier bundle the newest version again, at once and for all hosts of the newest one."""
    if arguments.resign not in (None, arguments.version):
        raise CommandError(Exit.USAGE, "name the version twice to sign it again: rollback VERSION --resign VERSION")
    fleet_access = access.read_engine_access(arguments)
    key = fleet_access.signing_key
    is_vouched = arguments.version is not None and confirm_unbelieved(arguments, fleet_access)

    async def work(publisher: Publisher) -> Manifest:
        history, source = publisher.history, None
        if arguments.version is not None:
            find = history.vouch_for if is_vouched else history.find_believed
            source = find(arguments.version)
        policy = history.choose_policy(arguments.policy if source is None else source.manifest.policy)
        if arguments.policy not in (None, policy):
            raise NoVersionError(
                f"version {arguments.version} is one{format_policy(policy) or ' of the default policy'}"
            )
        plan = plan_rollback(history, source, arguments.label, policy=policy, key=key.public.id)
        if isinstance(plan, Manifest):
            await publisher.try_to_stamp(key)
            return plan
        assert plan.same_as is not None
        # No host can apply a version without its bundle.
        await publisher.bundle(history.vouch_for(plan.same_as).manifest)
        if source is None:
            for text in list_passed_over(history, policy, plan.same_as, history.head.version + 1):
                output.print_error(text)
        return await publisher.commit(plan, key, publisher=access.find_publisher_name(), message=arguments.message)

    manifest = access.run_publisher(fleet_access, work, gives_up=arguments.give_up)
    print_rollout(arguments, manifest)
    return Exit.OK


def confirm_unbelieved(arguments: argparse.Namespace, fleet_access: access.EngineAccess) -> bool:
    """Show what a version would change whose key hosts do not list, and return whether a person vouches for it.

    False for a version that is believed, which needs no word.  Nothing of the version is run.
    """

    async def compare(publisher: Publisher) -> tuple[StoredVersion, str, list[FileChange]]:
        entry = publisher.history.find_read(arguments.version)
        newest = publisher.history.find_newest(entry.manifest.policy)
        if entry.is_believed or newest is None:
            before, name = {}, "nothing"
        else:
            before = (await publisher.bundle(newest.manifest)).files
            name = f"version {newest.manifest.version}, the newest that is believed"
        after = {} if entry.is_believed else (await publisher.bundle(entry.manifest)).files
        return entry, name, list(list_file_changes(before, after))

    entry, name, changes = access.run_publisher(fleet_access, compare, gives_up=arguments.give_up)
    if entry.is_believed:
        return False
    say_file_changes(changes, is_error=arguments.json)
    what = f"{describe_unbelieved([entry])}: against {name}, {format_count(len(changes), 'file')}"
    output.print_error(f"{what} would change")
    if arguments.resign == arguments.version:
        return True
    if not arguments.json and may_ask():
        if ask_yes(f"sign version {arguments.version} again, for all of its hosts?", is_default=False):
            return True
        raise CommandError(Exit.BAD_DATA, "nothing was signed")
    raise CommandError(
        Exit.BAD_DATA,
        f"version {arguments.version} was not signed again; if you have looked at every change and mean it, name it"
        f" once more with --resign {arguments.version}",
    )


WEEK = 7 * 24 * 3600.0
ObservedVersions: TypeAlias = list[Manifest]


def add_observe(parser: Parser) -> None:
    parser.runs(run_fleet_observe, example="hooklatch fleet observe --policy ci --for 3d", exits=LIKE_PUSH)
    parser.prints("cli.fleet.rollout:ObservedVersions")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--policy", metavar="NAME", help="which policy (default: the only one)")
    which.add_argument("--all", action="store_true", help="every policy of the fleet")
    until = parser.add_mutually_exclusive_group()
    until.add_argument(
        "--for", metavar="TIME", type=parse_observing, default=WEEK, dest="lasts",
        help="hosts enforce it again by themselves after that: at most 30d (7d)",
    )  # fmt: skip
    until.add_argument("--end", action="store_const", const=0.0, dest="lasts", help="enforce it again now")
    parser.add_argument("--message", metavar="TEXT", default="", help="why, for people")
    access.add_access(parser, with_keys=True)


def parse_observing(text: str) -> float:
    seconds = parse_duration(text)
    if not 1 <= seconds <= LONGEST_OBSERVING:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time from 1s to 30d, after which a policy is enforced again"
        )
    return seconds


def run_fleet_observe(arguments: argparse.Namespace) -> int:
    """Have all hosts of a policy only observe it for a while, or enforce it again."""
    fleet_access = access.read_engine_access(arguments)
    key = fleet_access.signing_key

    async def work(publisher: Publisher) -> list[Manifest]:
        history, now = publisher.history, time.time()
        policies = history.policies if arguments.all else [history.choose_policy(arguments.policy)]
        drafts = [draft for policy in policies for draft in plan_observing(history, policy, arguments.lasts, now)]
        for policy in policies:
            if doubted := list_in_force(history, policy, RolloutTarget())[1]:
                output.print_error(f"nothing changes for hosts that have {describe_unbelieved(doubted[::-1])}")
        for draft in drafts:  # all or none, as far as that can be known
            publisher.check_key(key, draft.policy)
            await publisher.bundle(history.find_believed(draft.same_as or 0).manifest)
        by = access.find_publisher_name()
        done = [await publisher.commit(draft, key, publisher=by, message=arguments.message) for draft in drafts]
        if not done:
            await publisher.try_to_stamp(key)
        return done

    changed = access.run_publisher(fleet_access, work)
    lines = [f"{format_rollout(manifest)}, bundle that of version {manifest.same_as}" for manifest in changed]
    output.say_result(changed, *(lines or ["every host enforces it already"]), is_json=arguments.json)
    if changed and arguments.lasts:
        output.print_error(
            "these hosts deny nothing by it until then, and fleet status is red; hooklatch fleet observe --end"
        )
    return Exit.OK


def print_rollout(arguments: argparse.Namespace, manifest: Manifest) -> None:
    bundle = f"that of version {manifest.same_as}" if manifest.same_as is not None else manifest.bundle[:12]
    output.say_result(manifest, f"{format_rollout(manifest)}, bundle {bundle}", is_json=arguments.json)

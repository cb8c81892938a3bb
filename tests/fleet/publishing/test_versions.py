"""What the next version says, and that no change to the versions before it goes unnoticed."""

from __future__ import annotations

import base64
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooklatch.fleet.manifests import (
    DEFAULT_POLICY,
    START,
    FleetError,
    Manifest,
    PolicyHead,
    RolloutTarget,
    SignedManifest,
    read_envelope,
    read_payload,
    select_newest,
    verify_manifests,
)
from hooklatch.fleet.publishing.versions import (
    NoVersionError,
    VersionDraft,
    VersionHistory,
    encode_envelope,
    find_standing_version,
    list_in_force,
    list_passed_over,
    plan_push,
    plan_rollback,
    plan_wider_rollout,
    sign_version,
)
from hooklatch.fleet.signing import PrivateKey, Purpose
from support.publishers import FLEET, KEY, KEYS, OTHER_KEY, digest_of, grown, history_of, report_of
from support.tables import table

CHAIN = grown(history_of(("a", 100), ("b", 10), ("b", 100, "ci")), "c", key=OTHER_KEY, is_read=False, is_believed=False)
CHAIN = grown(CHAIN, "d", 50)
ENVELOPES = [entry.envelope for entry in CHAIN.entries]
BYTES = [encode_envelope(envelope) for envelope in ENVELOPES]
OUTCOME = verify_manifests(FLEET, START, ENVELOPES, KEYS)


def push(
    history: VersionHistory, bundle: str, rollout: RolloutTarget, key: PrivateKey = KEY
) -> VersionDraft | Manifest:
    return plan_push(history, VersionDraft(bundle=digest_of(bundle), size=1, rollout=rollout), key=key.public.id)


def roll_back(
    history: VersionHistory, version: int | None = None, labels: list[str] | None = None, key: PrivateKey = KEY
) -> VersionDraft | Manifest:
    source = history.find_believed(version) if version is not None else None
    return plan_rollback(history, source, labels, key=key.public.id)


# -- the chain ---------------------------------------------------------------------------------------------------------


def test_all_versions_of_a_listed_key_are_there_and_those_of_another_are_passed_over() -> None:
    assert [manifest.version for manifest in OUTCOME.manifests] == [1, 2, 3, 5]
    assert OUTCOME.head == CHAIN.head


@st.composite
def tampered(draw: st.DrawFn) -> list[SignedManifest]:
    """Return versions of which some are left out, repeated, exchanged, edited or signed by somebody else."""
    envelopes = list(ENVELOPES)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(envelopes) - 1))
        one = envelopes[at]
        match draw(st.sampled_from(["leave out", "repeat", "exchange", "edit", "key", "signature", "sign", "cut"])):
            case "leave out" if len(envelopes) > 1:
                del envelopes[at]
            case "repeat":
                envelopes.insert(at, one)
            case "exchange":
                other = draw(st.integers(0, len(envelopes) - 1))
                envelopes[at], envelopes[other] = envelopes[other], envelopes[at]
            case "edit":
                place = draw(st.integers(0, len(one.payload) - 1))
                letter = draw(st.characters(codec="ascii"))
                envelopes[at] = msgspec.structs.replace(
                    one, payload=one.payload[:place] + letter + one.payload[place + 1 :]
                )
            case "key":
                key = draw(st.sampled_from([KEY.public.id, OTHER_KEY.public.id, "0" * 16]))
                envelopes[at] = msgspec.structs.replace(one, key=key)
            case "signature":
                raw = bytearray(base64.b64decode(one.signature))
                raw[draw(st.integers(0, len(raw) - 1))] ^= 1 << draw(st.integers(0, 7))
                envelopes[at] = msgspec.structs.replace(one, signature=base64.b64encode(raw).decode())
            case "sign":
                envelopes[at] = SignedManifest(
                    one.payload, OTHER_KEY.public.id, OTHER_KEY.sign(one.payload.encode(), Purpose.MANIFEST)
                )
            case _:
                del envelopes[at + 1 :]
    return envelopes


@given(tampered())
def test_tampered_versions_never_pass_unless_they_are_the_first_ones_as_they_were(
    envelopes: list[SignedManifest],
) -> None:
    try:
        walked = verify_manifests(FLEET, START, envelopes, KEYS)
    except FleetError:
        return

    count = walked.head.version
    assert envelopes == ENVELOPES[:count]
    assert walked.manifests == tuple(one for one in OUTCOME.manifests if one.version <= count)


@given(st.integers(0, len(BYTES) - 1), st.data())
def test_no_byte_of_a_stored_version_can_be_changed(at: int, data: st.DataObject) -> None:
    stored = bytearray(BYTES[at])
    place = data.draw(st.integers(0, len(stored) - 1))
    stored[place] ^= 1 << data.draw(st.integers(0, 7))

    try:
        changed = [*ENVELOPES[:at], read_envelope(bytes(stored)), *ENVELOPES[at + 1 :]]
        walked = verify_manifests(FLEET, START, changed, KEYS)
    except FleetError:
        return

    assert changed == ENVELOPES  # what was changed is how the same text is written
    assert walked == OUTCOME


def test_a_version_whose_key_was_exchanged_for_an_unknown_one_is_not_passed_over() -> None:
    stripped = [msgspec.structs.replace(ENVELOPES[0], key="0" * 16), *ENVELOPES[1:]]

    with pytest.raises(FleetError, match="history was rewritten"):
        verify_manifests(FLEET, START, stripped, KEYS)


def test_versions_of_another_fleet_are_refused() -> None:
    with pytest.raises(FleetError, match="is of the fleet 'acme', not of 'other'"):
        verify_manifests("other", START, ENVELOPES, KEYS)


# -- what was seen before ----------------------------------------------------------------------------------------------


def test_a_history_that_has_grown_is_as_it_was_seen() -> None:
    for entry in CHAIN.entries:
        assert CHAIN.find_contradiction(entry.head, by="me") is None
    assert CHAIN.find_contradiction(START, by="me") is None


def test_a_history_that_lost_versions_or_has_others_is_not() -> None:
    lost = history_of(("a",), ("b",)).find_contradiction(CHAIN.head, by="me")
    other = CHAIN.find_contradiction(PolicyHead(3, "0" * 64), by="me")

    assert re.search(r"newest version is 2, but me has read version 5.*old backup", lost or "")
    assert re.search(r"version 3 in the engine is not the one that me has read.*rewritten", other or "")


def test_hosts_that_have_read_more_than_the_engine_has_are_named() -> None:
    reports = [
        report_of("web-1", head=CHAIN.head),
        report_of("web-2", head=PolicyHead(7, "0" * 64)),
        report_of("web-3", head=PolicyHead(8, "0" * 64)),
    ]

    contradictions = CHAIN.list_host_contradictions(reports)

    assert [re.search(r"the host (\S+) has read version (\d)", text).groups() for text in contradictions] == [  # type: ignore[union-attr]
        ("web-3", "8"), ("web-2", "7"),
    ]  # fmt: skip
    assert CHAIN.list_host_contradictions(reports[:1]) == []


# -- what comes next ---------------------------------------------------------------------------------------------------


def test_to_push_what_stands_is_no_new_version() -> None:
    history = history_of(("a", 100), ("b", 10))

    again = push(history, "b", RolloutTarget((), 10), key=KEY)

    assert again == history.entries[-1].manifest


def test_what_another_key_has_signed_is_signed_again_as_hosts_may_not_believe_that_key_any_more() -> None:
    history = history_of(("a", 100))

    again = push(history, "a", RolloutTarget(), key=OTHER_KEY)

    assert again == VersionDraft(bundle=digest_of("a"), size=1, rollout=RolloutTarget(), same_as=1)
    assert isinstance(roll_back(history, 1, key=OTHER_KEY), VersionDraft)


@pytest.mark.parametrize("percent", [100, 10])
def test_what_some_of_its_hosts_have_left_for_another_bundle_is_pushed_again(percent: float) -> None:
    """Else a push for all hosts would say that they have it, and those of a later push by label would not."""
    history = history_of(("a", 100), ("b", percent, "ci"))

    for_all = push(history, "a", RolloutTarget(), key=KEY)
    for_others = push(history_of(("a", 100, "dev"), ("b", 100, "ci")), "a", RolloutTarget(("dev",)), key=KEY)

    assert isinstance(for_all, VersionDraft)
    assert (for_all.rollout, for_all.same_as) == (RolloutTarget(), 1)
    assert isinstance(for_others, Manifest)
    again = history_of(("a", 100), ("b", percent, "ci"), ("a", 100))
    assert isinstance(push(again, "a", RolloutTarget(), key=KEY), Manifest)


def test_a_bundle_that_came_back_names_the_version_that_had_it() -> None:
    history = history_of(("a", 100), ("b", 100))

    assert push(history, "a", RolloutTarget(), key=KEY) == VersionDraft(
        bundle=digest_of("a"), size=1, rollout=RolloutTarget(), same_as=1
    )
    assert push(history, "c", RolloutTarget(), key=KEY) == VersionDraft(
        bundle=digest_of("c"), size=1, rollout=RolloutTarget()
    )


def test_a_narrower_push_is_refused_as_it_would_change_nothing() -> None:
    with pytest.raises(FleetError, match="version 1 has this bundle at 100 % already"):
        push(history_of(("a", 100)), "a", RolloutTarget((), 10), key=KEY)


def test_a_wider_rollout_is_of_the_same_bundle_and_labels() -> None:
    history = history_of(("a", 100), ("b", 10, "ci"), ("b", 25, "ci"))

    plan = plan_wider_rollout(history, 2, 50)

    assert plan == VersionDraft(bundle=digest_of("b"), size=1, rollout=RolloutTarget(("ci",), 50), same_as=3)


@table(
    ("history", "version", "percent", "expected"),
    [
        (history_of(("a", 10)), 2, 50, "there is no version 2; the newest is 1"),
        (history_of(("a", 10)), 0, 50, "there is no version 0"),
        (history_of(("a", 10)), 1, 10, "at 10 % already, and a narrower"),
        (history_of(("a", 10), ("a", 50)), 1, 20, "version 2 has this bundle at 50 %"),
        (history_of(("a", 10), ("b", 1)), 1, 20, "has replaced version 1"),
        (history_of(("a", 10, "ci"), ("b", 1)), 1, 20, "has replaced version 1"),
    ],
)
def test_a_rollout_that_would_not_be_what_was_meant_is_refused(
    history: VersionHistory, version: int, percent: float, expected: str
) -> None:
    with pytest.raises(FleetError, match=expected):
        plan_wider_rollout(history, version, percent)


def test_versions_for_other_hosts_take_no_place() -> None:
    history = history_of(("a", 10, "ci"), ("b", 100, "gpu"), ("c", 100, "ci", "gpu"))

    stands = find_standing_version(history, history.entries[0].manifest, ["ci"])

    assert stands is not None
    assert stands.manifest.version == 1


@table(
    ("history", "version", "labels", "expected"),
    [
        (history_of(("a", 100), ("b", 100)), None, None, (1, RolloutTarget())),
        (history_of(("a", 100), ("b", 1), ("b", 10)), None, None, (1, RolloutTarget())),
        (history_of(("a", 100), ("b", 1), ("c", 100)), None, None, (1, RolloutTarget())),
        (history_of(("a", 100), ("b", 100, "ci")), None, None, (1, RolloutTarget(("ci",)))),
        (history_of(("a", 100), ("b", 100, "gpu"), ("c", 100, "ci")), None, None, (1, RolloutTarget(("ci",)))),
        (history_of(("a", 100), ("b", 100), ("c", 100), ("b", 100)), None, None, (1, RolloutTarget())),
        (history_of(("a", 100), ("b", 100), ("c", 100)), 1, None, (1, RolloutTarget())),
        (history_of(("a", 100, "ci"), ("b", 100)), 1, ["ci"], (1, RolloutTarget(("ci",)))),
    ],
)
def test_a_rollback_goes_to_what_all_its_hosts_had(
    history: VersionHistory, version: int | None, labels: list[str] | None, expected: tuple[int, RolloutTarget]
) -> None:
    plan = roll_back(history, version, labels)

    assert isinstance(plan, VersionDraft)
    assert (plan.same_as, plan.rollout) == expected


def test_a_second_rollback_never_brings_back_what_the_first_took_away() -> None:
    history = history_of(("a", 100), ("b", 100), ("a", 100))

    with pytest.raises(NoVersionError, match="no version before 1 with another bundle was for all hosts"):
        roll_back(history)
    assert roll_back(history, 1) == history.entries[-1].manifest


@table(
    ("history", "version", "expected"),
    [
        (VersionHistory(FLEET), None, "nothing was ever pushed"),
        (history_of(("a", 100)), None, "no version before 1 with another bundle"),
        (history_of(("a", 50), ("b", 100)), None, "no version before 2 with another bundle"),
        (history_of(("a", 100, "ci"), ("b", 100)), None, "no version before 2"),
        (history_of(("a", 100, "ci"), ("b", 100)), 1, "labelled ci, and this would give it to all hosts; say"),
        (CHAIN, 4, "which is not known here"),
    ],
)
def test_a_rollback_to_what_hosts_never_had_is_refused(
    history: VersionHistory, version: int | None, expected: str
) -> None:
    with pytest.raises(FleetError, match=expected):
        roll_back(history, version)


@given(st.text("abcd", min_size=1, max_size=6), st.sampled_from(["web-1", "web-2", "ci-1"]))
def test_a_host_has_after_a_rollback_what_it_had_before_the_push(bundles: str, host: str) -> None:
    history = history_of(*((letter, 100) for letter in bundles))
    try:
        plan = roll_back(history)
    except NoVersionError:
        return
    assert isinstance(plan, VersionDraft)
    first = bundles.index(bundles[-1])

    back = grown(history, plan.bundle[0])

    def had(entries: tuple[Manifest, ...]) -> str | None:
        found = select_newest(entries, host, []).get(DEFAULT_POLICY)
        return found.bundle if found is not None else None

    assert had(tuple(entry.manifest for entry in back.entries)) == had(
        tuple(entry.manifest for entry in history.entries[:first])
    )


def test_a_version_that_would_be_too_long_is_refused() -> None:
    plan = VersionDraft(bundle=digest_of("a"), size=1, rollout=RolloutTarget())

    with pytest.raises(FleetError, match="the message has 3000 characters"):
        sign_version(CHAIN, plan, KEY, created="", publisher="ann", message="x" * 3000)
    with pytest.raises(FleetError, match="the message is not UTF-8"):
        sign_version(CHAIN, plan, KEY, created="", publisher="ann", message="\udcff")


def test_a_host_has_of_each_policy_the_newest_version_that_is_for_it() -> None:
    def version(number: int, policy: str, *labels: str) -> Manifest:
        return msgspec.structs.replace(
            CHAIN.entries[0].manifest, version=number, policy=policy, rollout=RolloutTarget(labels)
        )

    versions = [version(1, "default"), version(2, "ci", "ci"), version(3, "default"), version(4, "gpu", "gpu")]

    def numbers(*labels: str) -> dict[str, int]:
        return {policy: manifest.version for policy, manifest in select_newest(versions, "h1", labels).items()}

    assert numbers() == {"default": 3}
    assert numbers("ci") == {"default": 3, "ci": 2}  # the push to all, after it, took nothing away


def test_a_version_that_names_no_policy_is_of_the_default_one() -> None:
    payload = msgspec.json.decode(ENVELOPES[0].payload)
    del payload["policy"]

    envelope = msgspec.structs.replace(ENVELOPES[0], payload=msgspec.json.encode(payload).decode())

    assert read_payload(envelope).policy == "default"


# -- keys that hosts do not list ---------------------------------------------------------------------------------------

STOLEN = grown(history_of(("a", 100), ("b", 100)), "c", key=OTHER_KEY, is_believed=False)


def test_what_is_only_read_neither_stands_nor_replaces_nor_comes_back() -> None:
    assert isinstance(push(STOLEN, "b", RolloutTarget()), Manifest)  # version 2 stands: no host took version 3
    again = push(STOLEN, "c", RolloutTarget())
    assert isinstance(again, VersionDraft)
    assert again.same_as is None
    back = roll_back(STOLEN)
    assert isinstance(back, VersionDraft)
    assert (back.bundle, back.same_as) == (digest_of("a"), 1)
    with pytest.raises(NoVersionError, match=f"not believed: version 3 of the key {OTHER_KEY.public.id}"):
        plan_wider_rollout(STOLEN, 3, 50)


def test_what_is_only_read_is_signed_again_by_its_number_alone() -> None:
    with pytest.raises(NoVersionError, match="not believed"):
        STOLEN.find_believed(3)

    plan = plan_rollback(STOLEN, STOLEN.vouch_for(3), key=KEY.public.id)

    assert isinstance(plan, VersionDraft)
    assert plan.same_as == 3


def test_what_a_rollback_passes_over_is_named_with_its_key() -> None:
    history = grown(STOLEN, "d")

    back = roll_back(history)

    assert isinstance(back, VersionDraft)
    assert back.same_as == 2
    (text,) = list_passed_over(history, "default", 2, 4)
    assert text.startswith(f"passed over version 3 of the key {OTHER_KEY.public.id}, which hosts do not believe")


def test_a_history_of_nothing_that_is_believed_has_nothing_to_go_back_to() -> None:
    history = grown(VersionHistory(FLEET), "a", key=OTHER_KEY, is_believed=False)

    with pytest.raises(NoVersionError, match="no version is believed; passed over version 1 of the key"):
        roll_back(history)


# -- policies ----------------------------------------------------------------------------------------------------------

BOTH = grown(grown(history_of(("a", 100), ("b", 100)), "c", 100, "ci", policy="ci"), "d", 10, "ci", policy="ci")


def test_each_policy_has_a_line_of_versions_of_its_own() -> None:
    back = plan_rollback(BOTH, None, policy="ci", key=KEY.public.id)

    assert isinstance(back, VersionDraft)
    assert (back.policy, back.same_as, back.rollout) == ("ci", 3, RolloutTarget(("ci",)))
    assert isinstance(push(BOTH, "b", RolloutTarget()), Manifest)  # no version of ci has replaced it
    wider = plan_wider_rollout(BOTH, 4, 50)
    assert (wider.policy, wider.same_as) == ("ci", 4)


def test_a_policy_that_is_not_clear_has_to_be_named() -> None:
    assert history_of(("a", 100)).choose_policy(None) == "default"
    assert BOTH.choose_policy("ci") == "ci"
    with pytest.raises(NoVersionError, match="say which policy with --policy; there are ci, default"):
        BOTH.choose_policy(None)
    with pytest.raises(NoVersionError, match="the policy 'gpu' has no version"):
        BOTH.choose_policy("gpu")


@table(
    ("history", "target", "believed"),
    [
        (history_of(("a", 100), ("b", 100)), RolloutTarget(), [2]),
        (history_of(("a", 100), ("b", 10)), RolloutTarget(), [2, 1]),
        (history_of(("a", 100), ("b", 10)), RolloutTarget((), 5), [2]),
        (history_of(("a", 100), ("b", 100, "ci")), RolloutTarget(), [2, 1]),
        (history_of(("a", 100), ("b", 100, "ci")), RolloutTarget(("ci",)), [2]),
        (history_of(("a", 100, "gpu"), ("b", 50, "ci")), RolloutTarget(("ci",)), [2, 1]),
        (history_of(("a", 100, "gpu"), ("b", 100, "ci")), RolloutTarget(("ci",)), [2]),
        (history_of(("a", 100, "ci"), ("b", 100)), RolloutTarget(), [2]),
        (BOTH, RolloutTarget(), [2]),
        (STOLEN, RolloutTarget(), [2]),
        (VersionHistory(FLEET), RolloutTarget(), []),
    ],
)
def test_what_hosts_of_a_push_may_have(history: VersionHistory, target: RolloutTarget, believed: list[int]) -> None:
    assert [of.manifest.version for of in list_in_force(history, "default", target)[0]] == believed


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([5, 50, 100]), st.sampled_from(["", "ci", "gpu"]))),
    st.sampled_from([RolloutTarget(), RolloutTarget(("ci",), 50), RolloutTarget(("ci", "gpu"))]),
)
def test_no_host_of_a_push_has_a_version_that_is_not_listed(
    pushes: list[tuple[str, int, str]], target: RolloutTarget
) -> None:
    history = VersionHistory(FLEET)
    for bundle, percent, label in pushes:
        history = grown(history, bundle, percent, *filter(None, [label]))
    listed = {of.manifest.version for of in list_in_force(history, "default", target)[0]}

    for number in range(40):
        for labels in ((), ("ci",), ("gpu",), ("ci", "gpu")):
            if target.includes(f"host-{number}", labels):
                versions = [entry.manifest for entry in history.entries]
                had = select_newest(versions, f"host-{number}", labels).get("default")
                assert had is None or had.version in listed

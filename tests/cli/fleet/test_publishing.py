"""keygen, push, rollout, rollback, diff and history, as a publisher runs them against a real engine.

Slow: a push builds the hooks and runs them.  Where processes matter, the commands are processes of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import trio

from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import MAX_BUNDLE
from hooklatch.fleet.signing import make_key, read_private, read_public
from support.commands import PATIENCE, Place
from support.publishers import GUARDS, Bench
from support.redis_server import RedisServer, free_port, needs_redis
from support.survivors import nobody_survives

pytestmark = [pytest.mark.slow, needs_redis]


# -- keys --------------------------------------------------------------------------------------------------------------


def test_a_key_is_for_its_user_alone_whatever_the_umask_and_the_public_one_is_printed(place: Place) -> None:
    made = place.run("fleet", "keygen", "--out", "team.key", umask=0)

    file = place.folder / "team.key"
    assert made.returncode == 0, made.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    public = made.stdout.rpartition('keys = ["')[2].partition('"')[0]
    assert read_private(file.read_text()).public.id == read_public(public).id
    assert file.read_text().strip() not in made.stdout + made.stderr


def test_a_key_that_is_there_is_never_overwritten(place: Place) -> None:
    (place.folder / "fleet.key").write_text("precious")

    done = place.run("fleet", "keygen")

    assert done.returncode == 73
    assert "is there already and was left as it is; give another --out" in done.stderr
    assert (place.folder / "fleet.key").read_text() == "precious"


# -- a story -----------------------------------------------------------------------------------------------------------


def test_a_policy_goes_out_is_widened_compared_and_taken_back(bench: Bench) -> None:
    first = bench.push("--message", "first guards")
    assert (first["version"], first["is_new"], first["files"], first["cases"]) == (1, True, ["guards.py"], 1)
    assert bench.push()["is_new"] is False

    bench.write("guards.py", GUARDS.replace('match="Bash"', 'match=["Bash", "Shell"], timeout=3.0'))
    bench.write("more.py", GUARDS.replace("no_rm", "no_dd"))
    second = bench.push("--percent", "10", "--label", "ci")
    assert second["rollout"] == {"labels": ["ci"], "percent": 10.0}

    told = bench.run("diff", "--files")
    assert told.code == 1
    assert '-@hook("pre_tool_use", match="Bash")' in told.out
    assert "+++ b/more.py" in told.out
    changed = bench.json("diff", "1", "2", code=1)
    assert [(hook["id"], hook["what"]) for hook in changed["hooks"]] == [
        ("guards:no_rm", "changed"),
        ("more:no_dd", "added"),
    ]
    assert bench.json("diff", "2", str(bench.hooks))["files"] == []

    assert bench.json("rollout", "2", "--percent", "50")["rollout"]["percent"] == 50.0
    back = bench.json("rollback", "--message", "too strict")
    assert (back["version"], back["same_as"], back["rollout"]) == (4, 1, {"labels": ["ci"], "percent": 100.0})

    history = bench.json("history")
    assert [(one["version"], one["same_as"], one["message"]) for one in history["versions"]] == [
        (1, None, "first guards"),
        (2, None, ""),
        (3, 2, ""),
        (4, 1, "too strict"),
    ]
    assert history["versions"][0]["bundle"] == history["versions"][3]["bundle"] == first["bundle"]
    assert history["findings"] == []


def test_labels_that_no_host_has_are_said(bench: Bench) -> None:
    """A label with a typo would else look like any other push."""
    pushed = bench.run("push", str(bench.hooks), "--label", "ic")

    assert pushed.code == 0
    assert "no host that has reported is labelled ic: none will apply this as it is" in pushed.err
    assert "labelled" not in bench.run("push", str(bench.hooks)).err


def test_a_new_key_signs_again_what_the_old_one_signed(bench: Bench) -> None:
    bench.push()
    old, new = bench.key.public, make_key()
    bench.key_file.write_text(new.text)

    again = bench.push("--trust", old.text)

    assert (again["version"], again["is_new"], again["same_as"]) == (2, True, None)
    assert bench.push("--trust", old.text)["is_new"] is False
    versions = bench.json("history")["versions"]  # the old key is not believed any more
    assert [(one["key"], one["believed"]) for one in versions] == [(old.id, False), (new.public.id, True)]


def test_a_publisher_may_insist_on_tests(bench: Bench) -> None:
    config = f'[fleet]\nname = "{bench.fleet}"\nurl = "{bench.url}"\nkeys = ["{bench.key.public.text}"]\n'
    bench.place.write({"hooks.toml": f"{config}needs_tests = true\n"})
    tested = bench.run_plain("fleet", "push", str(bench.hooks), "--key", str(bench.key_file))
    (bench.hooks / "policy-tests.toml").unlink()

    refused = bench.run_plain("fleet", "push", str(bench.hooks), "--key", str(bench.key_file), "--message", "x")

    assert (tested.code, refused.code) == (0, 65)
    assert "has no policy-tests.toml, and [fleet] has needs_tests here" in refused.err


def test_the_file_of_hooks_says_which_fleet(bench: Bench) -> None:
    config = f'[fleet]\nname = "{bench.fleet}"\nurl = "{bench.url}"\nkeys = ["{bench.key.public.text}"]\n'
    bench.place.write({"hooks.toml": config})

    pushed = bench.run_plain("fleet", "push", str(bench.hooks), "--key", str(bench.key_file))
    listed = bench.run_plain("fleet", "history")
    bench.place.write({"hooks.toml": config + 'when_stale = "deny"\n'})
    denying = bench.run_plain("fleet", "push", str(bench.hooks), "--key", str(bench.key_file))

    assert (pushed.code, listed.code) == (0, 0), pushed.err + listed.err
    assert bench.key.public.id in listed.out
    assert "run from a timer: hooklatch fleet timestamp" in denying.err
    assert "timer" not in pushed.err

    stranger = make_key()
    bench.key_file.write_text(stranger.text)
    refusal = bench.run_plain("fleet", "rollback", "--key", str(bench.key_file))
    assert refusal.code == 65
    assert f"your key {stranger.public.id} is not among [fleet] keys" in refusal.err


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_dirty_folder_is_refused_and_a_clean_one_is_known_by_its_commit(bench: Bench) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
        subprocess.run(["git", *identity, *words], cwd=bench.hooks, check=True, capture_output=True)

    git("init", "-q")
    git("add", "guards.py")
    git("commit", "-qm", "guards for all")

    refused = bench.run("push", str(bench.hooks))
    assert refused.code == 65
    assert "policy-tests.toml; commit, so that others can see what is pushed, or add --allow-dirty" in refused.err

    assert bench.push("--allow-dirty")["commit"] is None
    bench.write("guards.py", GUARDS.replace("no rm here", "no rm"))
    git("add", ".")
    git("commit", "-qm", "guards for all, and tests")
    assert bench.push()["commit"].endswith(" guards for all, and tests")
    assert bench.json("history")["versions"][1]["message"].endswith(" guards for all, and tests")


# -- what does not go out ----------------------------------------------------------------------------------------------


def refused(bench: Bench, *words: str, code: int, **instead: str) -> str:
    """Run what is to be refused; return the one line that says so."""
    done = bench.run(*words, **instead)
    assert done.code == code, done.out + done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    return done.err.removeprefix("hooklatch: ").rstrip("\n")


def test_hooks_that_do_not_build_or_do_not_pass_never_go_out(bench: Bench) -> None:
    folder = str(bench.hooks)

    bench.write("guards.py", "def broken(:\n")
    text = refused(bench, "push", folder, code=1)
    assert "wrong with the hooks: guards.py:1: SyntaxError" in text  # after its progress, where that takes long
    assert text.endswith("the hooks do not load, so nothing was pushed; repair them, and push again")

    bench.write("guards.py", GUARDS.replace("pre_tool_use", "pre_tool_uses"))
    assert "pre_tool_uses" in refused(bench, "push", folder, code=1)

    bench.write("guards.py", GUARDS.replace('"rm" in', '"mv" in'))
    text = refused(bench, "push", folder, code=1)
    assert "FAIL rm is refused (" in text
    assert text.endswith("1 case of 1 failed, so nothing was pushed; repair that, and push again")

    bench.write("guards.py", GUARDS)
    bench.write("policy-tests.toml", "[[case]]\nevent = 'pre_tool_use'\n")
    assert "expect" in refused(bench, "push", folder, code=65)

    (bench.hooks / "policy-tests.toml").rename(bench.hooks / "tests.toml")
    assert "tests.toml" in refused(bench, "push", folder, code=1)

    assert bench.json("history")["versions"] == []


def test_what_is_not_in_the_folder_cannot_go_out_as_a_part_of_it(bench: Bench) -> None:
    (bench.place.folder / "outside.py").write_text(GUARDS)
    (bench.hooks / "guards.py").unlink()
    for path in ("../outside.py", str(bench.place.folder / "outside.py")):
        bench.write("more.toml", f'[[source]]\npath = "{path}"\n')

        assert "more.toml:" in refused(bench, "push", str(bench.hooks), code=1)


def test_cases_see_the_hooks_in_the_layer_in_which_hosts_have_them(bench: Bench) -> None:
    cases = (bench.hooks / "policy-tests.toml").read_text()
    expect = 'expect = { verdict = "deny", hook = "fleet/guards:no_rm" }'
    bench.write("policy-tests.toml", cases.replace('expect = "deny"', expect))

    assert bench.push()["cases"] == 1


def test_a_guard_that_crashes_is_no_guard_that_refuses(bench: Bench) -> None:
    bench.write("guards.py", GUARDS.replace('return deny("no rm here")', "raise ValueError"))

    assert "cause is crash, not policy" in refused(bench, "push", str(bench.hooks), code=1)


def test_a_folder_without_hooks_goes_out_only_if_that_is_meant(bench: Bench) -> None:
    shutil.rmtree(bench.hooks)
    bench.hooks.mkdir(mode=0o700)

    text = refused(bench, "push", str(bench.hooks), code=65)

    assert text.endswith("would take all hooks of earlier versions away; if that is meant, give --allow-empty")
    assert bench.push("--allow-empty")["files"] == []


def test_each_bad_input_is_one_clear_error_and_nothing_is_lost(bench: Bench, tmp_path: Path) -> None:
    folder = str(bench.hooks)
    bench.push()
    other = tmp_path / "other.key"
    other.touch(mode=0o600)
    other.write_text(make_key().text)
    open_to_all = tmp_path / "open.key"
    open_to_all.write_text(bench.key.text)
    open_to_all.chmod(0o644)
    nonsense = tmp_path / "nonsense.key"
    nonsense.touch(mode=0o600)
    bench.write("guards.py", GUARDS.replace("no rm here", "no rm"))

    for words, code, instead, expected in (
        (("push", folder), 64, {"to": "mysql://engine"}, "there is no engine 'mysql'; write redis://"),
        (("push", folder), 64, {"to": "redis://:secret@engine"}, "has a password in it: take it out"),
        (("push", folder), 64, {"to": "localhost:6379"}, "it has no scheme; write redis://"),
        (("rollback",), 65, {"key": str(other)}, "which is not known here"),
        (("push", folder), 77, {"key": str(open_to_all)}, f"run: chmod 600 {open_to_all}"),
        (("push", folder), 65, {"key": str(nonsense)}, "is not a private key"),
        (("push", folder), 66, {"key": "/nowhere/fleet.key"}, "cannot be read: No such file or directory"),
        (("push", folder), 64, {"fleet": "a/b"}, "cannot be a fleet's name"),
        (("push", folder, "--label", "a b"), 65, {}, "'a b' cannot be a label"),
        (("push", folder, "--steps", "50,10"), 64, {}, "does not rise; write it like 1,10,50,100"),
        (("push", folder, "--percent", "0"), 64, {}, "is not a percentage over 0"),
        (("push", f"{folder}/nowhere"), 66, {}, "does not exist; name the folder"),
        (("push", folder, "--password-file", "/nowhere"), 66, {}, "the password file '/nowhere' does not exist"),
        (("rollout", "7", "--percent", "50"), 66, {}, "there is no version 7; the newest is 1"),
        (("rollout", "1", "--percent", "50"), 65, {}, "at 100 % already"),
        (("rollback",), 66, {}, "no version before 1 with another bundle"),
        (("rollback", "9"), 66, {}, "there is no version 9"),
        (("diff", "1", "2", "3"), 64, {}, "name two versions"),
        (("diff", "5"), 66, {}, "there is no version 5"),
    ):
        assert expected in refused(bench, *words, code=code, **instead)  # type: ignore[arg-type]

    with (bench.hooks / "model.bin").open("wb") as file:
        file.truncate(MAX_BUNDLE + 1)
    assert "over 4 MiB, the most that a bundle can have" in refused(bench, "push", folder, code=65)
    assert len(bench.json("history")["versions"]) == 1


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["--to", "redis://127.0.0.1:{port}"], 69, "127.0.0.1:{port}"),
        (["--to", "redis+unix:///nowhere/redis.sock"], 69, "/nowhere/redis.sock"),
        (
            ["--to", "rediss://127.0.0.1:{port}", "--ca", "/nowhere/ca"],
            66,
            "the file of certificates '/nowhere/ca' cannot be read",
        ),
    ],
)
def test_an_engine_that_cannot_be_reached_is_named(place: Place, words: list[str], code: int, expected: str) -> None:
    port = free_port()
    key = make_key().public.text

    done = place.run("fleet", "history", *(word.format(port=port) for word in words), "--fleet", "x", "--trust", key)

    assert done.returncode == code, done.stderr
    assert expected.format(port=port) in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_secrets_are_in_no_message(bench: Bench) -> None:
    done = bench.run("push", str(bench.hooks), to="redis://ann:s3cret@engine")

    assert "s3cret" not in done.out + done.err
    assert bench.key.text not in done.out + done.err


def test_without_a_key_nothing_is_believed(bench: Bench) -> None:
    words = ["fleet", "history", "--to", bench.url, "--fleet", bench.fleet]

    assert bench.run_plain(*words).code == 64
    assert bench.run_plain(*words, "--trust", "ed25519:AAAA").code == 65
    assert bench.run_plain(*words, "--trust", bench.key.public.text).code == 0


# -- races, rollouts, an engine that is not what it was ----------------------------------------------------------------

RACER = """
import sys, trio
from hooklatch.fleet.engine.opening import open_engine
from hooklatch.fleet.manifests import RolloutTarget
from hooklatch.fleet.signing import read_private
from hooklatch.fleet.publishing.publisher import LostRaceError, Publisher
from hooklatch.fleet.publishing.versions import VersionDraft

url, fleet, key_file, name = sys.argv[1:]
key = read_private(open(key_file).read())

async def race():
    async with open_engine(url, fleet) as engine:
        publisher = Publisher(engine, fleet, {key.public.id: key.public})
        await publisher.read()
        print("ready", flush=True)
        sys.stdin.readline()
        plan = VersionDraft(bundle=name[0] * 64, size=1, rollout=RolloutTarget())
        try:
            await publisher.commit(plan, key, publisher=name, message="")
        except LostRaceError as error:
            print("lost", error.winner.publisher)
        else:
            print("won", name)

trio.run(race)
"""


def test_of_publishers_in_processes_of_their_own_one_wins_and_the_others_are_told_who(bench: Bench) -> None:
    names = ["ann", "ben", "cat"]
    with nobody_survives():
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, bench.url, bench.fleet, str(bench.key_file), name],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for name in names
        ]  # fmt: skip
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = [racer.communicate(timeout=PATIENCE)[0].split() for racer in racers]

    winners = [name for word, name in said if word == "won"]
    assert len(winners) == 1
    assert [name for word, name in said if word == "lost"] == winners * 2
    (version,) = bench.json("history")["versions"]
    assert version["publisher"] == winners[0]


def test_a_rollout_that_nobody_reports_on_stops_with_code_1(bench: Bench) -> None:
    done = bench.run("push", str(bench.hooks), "--steps", "1,100", "--wait", "0.05", "--patience", "0.1")

    assert done.code == 1
    assert done.out.startswith("version 1 is out at 1 %\n")
    assert "stopped at version 1, 1 %: hosts with it have decided 0 gates, of at least 50" in done.err
    assert bench.json("history")["versions"][-1]["rollout"]["percent"] == 1


def test_ctrl_c_leaves_a_rollout_where_it_is_and_says_where(bench: Bench) -> None:
    with nobody_survives():
        push = bench.begin("push", str(bench.hooks), "--steps", "1,100")
        assert push.line() == "version 1 is out at 1 %\n"
        push.signal(signal.SIGINT)
        code, _, said = push.end()

    assert code == 130, said
    assert "Traceback" not in said
    assert "interrupted: version 1 stays at 1 %; to go on, run: hooklatch fleet rollout 1 --steps" in said
    assert bench.run("rollout", "1", "--percent", "100").code == 0


def test_an_engine_that_was_restored_from_a_backup_takes_no_push_and_says_what_to_do(
    bench: Bench, shared_redis: RedisServer
) -> None:
    bench.push()
    copy = shared_redis.command("DUMP", f"hooklatch:{bench.fleet}:policy")
    head, _, dumped = copy.partition(b"\r\n")
    bench.json("rollback", "1", "--label", "ci")
    shared_redis.command("DEL", f"hooklatch:{bench.fleet}:policy")
    shared_redis.command("RESTORE", f"hooklatch:{bench.fleet}:policy", 0, dumped[: int(head[1:])])

    text = refused(bench, "push", str(bench.hooks), code=65)

    assert "newest version is 1, but this machine has read version 2: versions were lost" in text
    assert "hooklatch fleet restore" in text
    listed = bench.json("history", code=1)
    assert "versions were lost" in listed["findings"][0]
    assert "hooklatch fleet restore" in listed["findings"][1]
    assert listed["versions"][0]["version"] == 1
    assert bench.json("restore")["versions"] == [2]
    assert bench.json("history")["findings"] == []


def test_the_memory_of_what_was_seen_is_the_users_alone(bench: Bench) -> None:
    bench.push()

    folder = bench.place.folder / ".local/state/hooklatch/fleet-seen"
    seen = [folder, *folder.rglob("*")]

    assert {(path.is_dir(), oct(os.stat(path).st_mode & 0o777)) for path in seen} == {(False, "0o600"), (True, "0o700")}


def test_a_table_that_another_user_could_have_written_names_no_engine(place: Place) -> None:
    place.config.parent.mkdir(parents=True, exist_ok=True)
    place.config.write_text('[fleet]\nname = "acme"\nurl = "redis://127.0.0.1:1"\n')
    place.config.chmod(0o666)

    done = place.run("fleet", "history")

    assert done.returncode == 77, done.stderr
    assert "fix it with: chmod go-w" in done.stderr


def test_a_timestamp_is_signed_between_pushes(bench: Bench) -> None:
    nothing = bench.run("timestamp")
    bench.push()
    stamp = bench.json("timestamp", "--expires", "2d")
    told = bench.run("timestamp")
    too_long = bench.run("timestamp", "--expires", "9d")

    assert (nothing.code, too_long.code) == (66, 64)
    assert "nothing was ever pushed" in nothing.err
    assert "not a time of 8 days at most" in too_long.err
    assert (stamp["kind"], stamp["fleet"], stamp["version"]) == ("timestamp", bench.fleet, 1)
    issued, expires = (datetime.fromisoformat(stamp[name]) for name in ("issued", "expires"))
    assert expires - issued == timedelta(days=2)
    assert told.out.startswith("version 1 is the newest at ")


def test_a_push_without_a_change_signs_a_new_timestamp(bench: Bench) -> None:
    """A host that was stale for want of one opens with the next push, whatever is in it."""
    bench.push()
    before = stored(bench)
    assert bench.push()["is_new"] is False

    assert stored(bench) > before


def stored(bench: Bench) -> datetime:
    """Return when the engine's timestamp was issued."""

    async def read() -> bytes:
        async with open_engine(bench.url, bench.fleet) as engine:
            return (await engine.timestamp() or (0, b""))[1]

    payload = json.loads(json.loads(trio.run(read))["payload"])
    return datetime.fromisoformat(payload["issued"])


# -- key sets ----------------------------------------------------------------------------------------------------------


def key_file(bench: Bench, name: str) -> tuple[str, str]:
    """Make a pair of keys; return the private one's file, and the public one."""
    path = bench.place.folder / name
    pair = json.loads(bench.run_plain("fleet", "keygen", "--out", str(path), "--json").out)
    return str(path), pair["public"]


def test_a_history_without_key_sets_that_were_seen_is_a_finding(bench: Bench, shared_redis: RedisServer) -> None:
    """Without them keys are shown as believed that a key set has taken away."""
    bench.push()
    bench.run("keys", "init")
    shared_redis.command("DEL", f"hooklatch:{bench.fleet}:keys")

    (finding,) = bench.json("history", code=1)["findings"]

    assert "newest key set is 0, and this machine has seen key set 1" in finding


def test_a_key_set_of_one_key_is_one_command_and_a_rotation_another(bench: Bench) -> None:
    """A small team: no host's file is edited, and the old key signs nothing any more."""
    bench.push()
    first = bench.json("keys", "init")
    again = bench.run("keys", "init")
    new, public = key_file(bench, "new.key")
    roles = ("--root", public, "--timestamp", public, "--policy", f"*={public}")
    alone = bench.run("keys", "rotate", *roles, "--out", str(bench.place.folder / "keys.json"))
    waits = bench.run_plain("fleet", "push", "--help")
    done = bench.run("keys", "sign", str(bench.place.folder / "keys.json"), key=new, trust=bench.key.public.text)
    by_old = bench.run("push", str(bench.hooks))
    by_new = bench.run("push", str(bench.hooks), key=new, trust=bench.key.public.text)
    shown = bench.json("keys", "show")

    assert (first["version"], first["root"]) == (1, {"keys": [bench.key.public.text]})
    assert (again.code, waits.code) == (65, 0)
    assert "change it with: hooklatch fleet keys rotate" in again.err
    assert alone.code == 0
    assert "waits in" in alone.err
    assert "and 1 must" in alone.err
    assert done.code == 0, done.err
    assert "waits" not in done.err
    assert by_old.code == 65
    assert "see: hooklatch fleet keys show" in by_old.err or "not trusted here" in by_old.err
    assert by_new.code == 0, by_new.err
    assert (shown["version"], shown["previous"] != "", shown["root"]) == (2, True, {"keys": [public]})


def test_two_of_three_hold_root_and_a_key_of_its_own_signs_timestamps(bench: Bench) -> None:
    bench.push()
    (second, root2), (_, root3), (timer, timer_key) = (key_file(bench, name) for name in ("2.key", "3.key", "t.key"))
    draft = str(bench.place.folder / "keys.json")
    roots = ("--root", bench.key.public.text, "--root", root2, "--root", root3, "--threshold", "2")
    bench.run("keys", "init", *roots, "--timestamp", timer_key, "--out", draft)
    none_yet = bench.run("keys", "show")
    signed = bench.run("keys", "sign", draft, key=second, trust=bench.key.public.text)
    pushed = bench.run("push", str(bench.hooks))  # the same again: only its timestamp would be new
    by_timer = bench.run("timestamp", key=timer, trust=bench.key.public.text)
    as_timer = bench.run("push", str(bench.hooks), "--message", "x", key=timer, trust=bench.key.public.text)

    assert none_yet.code == 66
    assert signed.code == 0, signed.err
    assert "root (2 must sign)" in signed.out
    assert pushed.code == 0
    assert "may not sign timestamps by the fleet's key set 1" in pushed.err
    assert by_timer.code == 0, by_timer.err
    assert as_timer.code == 65
    assert "may not sign the policy 'default' by the fleet's key set 1" in as_timer.err

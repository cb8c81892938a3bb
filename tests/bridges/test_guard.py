"""What every bridge relies on: a question is always answered, and a failure answers it with a refusal."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from hooklatch.bridges.guard import Guard, open_guard, open_guard_sync
from hooklatch.bridges.rulings import ProceedRuling, RefuseRuling, Ruling, SdkAbilities
from support.bridged import REFUSALS, Bridged
from support.scripted_daemon import Peer, ScriptedDaemon, decision

SOME = SdkAbilities(name="a test", rewrites=True)


def texts(ruling: Ruling) -> str:
    assert isinstance(ruling, RefuseRuling), ruling
    return ruling.text


async def ask(guard: Guard, word: str, tool: str = "speak") -> Ruling:
    return await guard.before_tool(tool, {"word": word}, "call-1", SOME)


async def test_under_trio_each_word_gets_its_own_answer(place: Bridged) -> None:
    rulings: dict[str, Ruling] = {}

    async def keep(guard: Guard, word: str) -> None:
        rulings[word] = await ask(guard, word)

    async with open_guard(runtime_dir=place.runtime_dir) as guard, trio.open_nursery() as nursery:
        for word in (*REFUSALS, "hello", "rewrite", "ask"):
            nursery.start_soon(keep, guard, word)

    for word, text in REFUSALS.items():
        assert text in texts(rulings[word])
    assert isinstance(rulings["hello"], ProceedRuling)
    assert rulings["hello"].value == {"word": "hello"}
    assert isinstance(rulings["rewrite"], ProceedRuling)
    assert rulings["rewrite"].value == {"word": "rewritten"}
    assert "a test cannot ask a person here" in texts(rulings["ask"])


def test_under_asyncio_too(place: Bridged) -> None:
    async def main() -> list[Ruling]:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            return list(await asyncio.gather(*(ask(guard, word) for word in ("deny", "hello"))))

    denied, allowed = asyncio.run(main())

    assert "not said here" in texts(denied)
    assert isinstance(allowed, ProceedRuling)


def test_a_guard_of_threads_serves_any_loop_and_any_thread(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        asked = [
            asyncio.run(ask(guard, "deny")),
            trio.run(ask, guard, "deny"),
            guard.before_tool_blocking("speak", {"word": "deny"}, None, SOME),
        ]
        prompt = guard.before_prompt_blocking("a forbidden thing", SOME)

    assert all("not said here" in texts(one) for one in asked)
    assert "not discussed here" in texts(prompt)


def test_another_loop_than_the_sessions_is_a_refusal(place: Bridged) -> None:
    answers: list[Ruling] = []

    async def main() -> None:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            thread = threading.Thread(target=lambda: answers.append(asyncio.run(ask(guard, "hello"))))
            thread.start()
            await asyncio.to_thread(thread.join)
            answers.append(guard.before_tool_blocking("speak", {"word": "hello"}, None, SOME))

    asyncio.run(main())

    assert all("open_guard_sync()" in texts(one) for one in answers)


async def test_notifications_reach_their_hooks(place: Bridged) -> None:
    async with open_guard(runtime_dir=place.runtime_dir) as guard:
        await guard.tell("post_tool_use", tool_name="speak", tool_input={}, tool_response=object(), nothing=None)

    await trio.to_thread.run_sync(place.wait_told, "session_start")
    await trio.to_thread.run_sync(place.wait_told, "post_tool_use")
    await trio.to_thread.run_sync(place.wait_told, "session_end")
    assert place.told("post_tool_use")[0]["tool_response"].startswith("<object object")


STRANGE = [{"word": float("nan")}, {1: 2}, {"word": object()}, ["word"], '{"word": 1, "word": 2}', "x"]


@pytest.mark.parametrize("value", STRANGE)
async def test_an_input_that_cannot_be_shown_to_guards_is_refused(place: Bridged, value: Any) -> None:
    async with open_guard(runtime_dir=place.runtime_dir) as guard:
        ruling = await guard.before_tool("speak", value, None, SOME)

    assert "Not run: " in texts(ruling)
    assert place.asked() == []


async def test_without_a_daemon_everything_is_refused_and_nothing_raises(nowhere: str) -> None:
    async with open_guard(runtime_dir=nowhere) as guard:
        ruling = await ask(guard, "hello")
        await guard.tell("stop")

    assert "Not run: " in texts(ruling)


def test_without_a_daemon_the_guard_of_threads_refuses_too(nowhere: str) -> None:
    with open_guard_sync(runtime_dir=nowhere) as guard:
        ruling = guard.before_tool_blocking("speak", {}, None, SOME)
        guard.tell_blocking("stop")

    assert "Not run: " in texts(ruling)


async def test_after_its_end_a_guard_refuses(place: Bridged) -> None:
    async with open_guard(runtime_dir=place.runtime_dir) as guard:
        pass

    assert "Not run: " in texts(await ask(guard, "hello"))
    await guard.tell("stop")


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[ScriptedDaemon]:
    running = ScriptedDaemon(tmp_path / "agent.sock")
    yield running
    running.close()


def never_decide(peer: Peer) -> None:
    """Welcome the session and answer every ping, but decide nothing."""
    peer.welcome()
    never_decide_more(peer)


async def test_a_daemon_that_never_decides_is_a_refusal_at_the_deadline(scripted: ScriptedDaemon) -> None:
    scripted.play(never_decide)

    async with open_guard(runtime_dir=Path(scripted.path).parent, deadline=0.2) as guard:
        with trio.fail_after(20):
            ruling = await ask(guard, "hello")
            await guard.tell("notification", message="x")

    assert "in time" in texts(ruling)


def test_a_daemon_that_never_decides_holds_no_thread_either(scripted: ScriptedDaemon) -> None:
    scripted.play(never_decide)

    with open_guard_sync(runtime_dir=Path(scripted.path).parent, deadline=0.2) as guard:
        ruling = guard.before_tool_blocking("speak", {}, None, SOME)
        also = asyncio.run(ask(guard, "hello"))

    assert "in time" in texts(ruling)
    assert "in time" in texts(also)


async def test_the_daemon_is_told_to_decide_before_the_deadline(scripted: ScriptedDaemon) -> None:
    limits: list[float] = []

    def decide(peer: Peer) -> None:
        peer.welcome()
        while (asked := peer.read_until("fire"))["params"]["event"] != "pre_tool_use":
            pass  # the beginning of the session
        limits.append(asked["params"]["timeout"])
        peer.answer(asked, decision())
        never_decide_more(peer)

    scripted.play(decide)

    async with open_guard(runtime_dir=Path(scripted.path).parent, deadline=4.0) as guard:
        await ask(guard, "hello")

    assert limits == [pytest.approx(3.6)]


def never_decide_more(peer: Peer) -> None:
    while message := peer.read():
        if message["method"] == "ping":
            peer.answer(message, {})


def hang_up(peer: Peer) -> None:
    peer.welcome()
    peer.read_until("fire")


def talk_rubbish(peer: Peer) -> None:
    peer.welcome()
    while message := peer.read():
        peer.send(b'{"jsonrpc":"2.0","id":%d,"result":{"verdict":"allow"}}\n' % message["id"])


def answer_about_something_else(peer: Peer) -> None:
    peer.welcome()
    while message := peer.read():
        peer.answer(message, decision("stop", "pass"))


@pytest.mark.parametrize("script", [hang_up, talk_rubbish, answer_about_something_else])
async def test_a_daemon_that_dies_or_talks_rubbish_meanwhile_is_a_refusal(
    scripted: ScriptedDaemon, script: Callable[[Peer], None]
) -> None:
    scripted.play(script)

    async with open_guard(runtime_dir=Path(scripted.path).parent) as guard:
        ruling = await ask(guard, "hello")

    assert "Not run: " in texts(ruling)


async def test_an_input_that_changes_while_it_is_judged_is_refused(place: Bridged) -> None:
    tool_input = {"word": "hang"}  # judged until its deadline

    async with open_guard(runtime_dir=place.runtime_dir) as guard, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def change() -> None:
            while not place.asked():  # noqa: ASYNC110 - a hook in another process says so, in a file
                await trio.sleep(0.005)
            tool_input["word"] = "hello"

        ruling = await guard.before_tool("speak", tool_input, None, SOME)

    assert "changed while its guards judged it" in texts(ruling)


async def test_a_cancelled_question_is_no_permission(place: Bridged) -> None:
    answers: list[Ruling] = []

    async with open_guard(runtime_dir=place.runtime_dir) as guard:
        with trio.move_on_after(0) as scope:
            answers.append(await ask(guard, "hello"))

    assert scope.cancelled_caught
    assert answers == []


NEEDS = {
    "claude_agent_sdk": "claude-agent-sdk",
    "google_adk": "google-adk",
    "langchain": "langchain",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai",
    "strands": "strands",
}


@pytest.mark.parametrize(("bridge", "extra"), NEEDS.items(), ids=NEEDS)
def test_without_its_sdk_a_bridge_says_what_to_install(bridge: str, extra: str) -> None:
    hidden = ["agents", "claude_agent_sdk", "google", "langchain", "pydantic_ai", "strands"]
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden})); import hooklatch.bridges.{bridge}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert f"pip install 'hooklatch[{extra}]'" in done.stderr

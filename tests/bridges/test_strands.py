"""strands with a scripted model: a refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import pytest

pytest.importorskip("strands", reason="strands-agents is not installed: pip install 'hooklatch[strands]'")

from strands import Agent, tool
from strands.models import Model

from hooklatch.bridges.guard import Guard, open_guard, open_guard_sync
from hooklatch.bridges.strands import GuardHooks
from support.bridged import COMMANDS, READINGS, REFUSALS, Bridged, called, example

pytestmark = pytest.mark.slow  # each file imports an SDK and starts workers


class Script(Model):
    """A model that calls a tool with each word at once, and is done after that."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.told: dict[str, tuple[str, str]] = {}
        self.requests = 0

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *others: Any, **more: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError

    async def stream(self, messages: Any, *others: Any, **more: Any) -> AsyncIterable[Any]:
        self.requests += 1
        results = [part["toolResult"] for one in messages for part in one["content"] if "toolResult" in part]
        self.told = {
            one["toolUseId"].removeprefix("call-"): (one["status"], one["content"][0]["text"]) for one in results
        }
        yield {"messageStart": {"role": "assistant"}}
        if results:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for number, word in enumerate(self.words):
            name, given = called(word)
            identity = f"call-{number if name == 'shell' else word}"
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": identity}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(given)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


class Speaker:
    """An agent with a tool that says words."""

    def __init__(self, guard: Guard, *words: str, **options: Any) -> None:
        self.said: list[str] = []

        @tool
        def speak(word: str) -> str:
            """Say a word."""
            self.said.append(word)
            if word == "fail":
                raise RuntimeError("no voice")
            return f"said {word}"

        self.model = Script(*words)
        self.agent = Agent(model=self.model, tools=[speak], hooks=[GuardHooks(guard, **options)], callback_handler=None)


WORDS = ["hello", "rewrite", "ask", "fail", *(word for word in REFUSALS if word != "halt")]


def check(place: Bridged, speaker: Speaker) -> None:
    told = speaker.model.told

    assert sorted(speaker.said) == ["fail", "hello", "rewritten"]
    assert told["hello"] == ("success", "said hello")
    assert told["rewrite"] == ("success", "said rewritten")
    assert told["fail"][0] == "error"
    for word, text in REFUSALS.items():
        assert word == "halt" or (told[word][0] == "error" and text in told[word][1])
    assert "strands cannot ask a person here" in told["ask"][1]
    assert place.wait_told("post_tool_use", lambda one: one["tool_input"] == {"word": "rewritten"})
    assert "no voice" in str(place.wait_told("post_tool_use_failure")["error"])
    assert "done" in place.wait_told("stop")["last_assistant_message"]


def test_a_called_agent_gives_each_call_its_own_verdict(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        speaker = Speaker(guard, *WORDS)
        speaker.agent("go on")

    check(place, speaker)


def test_a_result_is_changed_or_withheld_before_the_model_reads_it(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        speaker = Speaker(guard, *READINGS)
        speaker.agent("go on")

    assert sorted(speaker.said) == sorted(READINGS)
    assert all(text in speaker.model.told[word][1] for word, text in READINGS.items())


def test_an_awaited_agent_too(place: Bridged) -> None:
    async def main() -> Speaker:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            speaker = Speaker(guard, *WORDS)
            await speaker.agent.invoke_async("go on")
            return speaker

    check(place, asyncio.run(main()))


def test_a_halt_ends_the_run(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        speaker = Speaker(guard, "halt")
        result = speaker.agent("go on")

    assert (speaker.said, speaker.model.told) == ([], {})  # the model was not asked again
    assert result.stop_reason != "end_turn"


def test_a_refused_prompt_never_reaches_the_model(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        speaker = Speaker(guard, "hello")
        result = speaker.agent("a forbidden thing")

    assert "not discussed here" in str(result)
    assert (speaker.said, speaker.model.requests) == ([], 0)


def test_without_a_daemon_nothing_runs(nowhere: str) -> None:
    with open_guard_sync(runtime_dir=nowhere) as guard:
        speaker = Speaker(guard, "hello")
        result = speaker.agent("go on")

    assert speaker.said == []
    assert "Not run: " in str(result)


def test_a_daemon_that_is_gone_when_the_tool_is_called_refuses_it(place: Bridged, nowhere: str) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard, open_guard_sync(runtime_dir=nowhere) as gone:
        speaker = Speaker(guard, "hello")
        speaker.agent.hooks.add_hook(GuardHooks(gone))
        speaker.agent.messages = []
        speaker.agent([{"toolUse": {"name": "speak", "toolUseId": "x", "input": {}}}])

    assert speaker.said == []


@pytest.mark.parametrize(("answer", "said"), [(True, ["ask"]), (False, []), ("yes", [])])
def test_an_ask_waits_for_a_person(place: Bridged, answer: object, said: list[str]) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        speaker = Speaker(guard, "ask", approvals=True)
        paused = speaker.agent("go on")
        assert (paused.stop_reason, speaker.said) == ("interrupt", [])
        (question,) = paused.interrupts or ()
        assert question.reason["reason"] == "somebody should look at this"
        speaker.agent([{"interruptResponse": {"interruptId": question.id, "response": answer}}])

    assert speaker.said == said


def test_the_example_runs_what_it_may(place: Bridged) -> None:
    model = Script(*COMMANDS)

    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        assert example("strands_agent").clean(guard, model).strip() == "done"

    assert model.told == {"0": ("success", "hello\n"), "1": ("error", "name the files to remove")}

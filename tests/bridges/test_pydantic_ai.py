"""pydantic-ai with a scripted model: a refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: pip install 'hooklatch[pydantic-ai]'")

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hooklatch.bridges.guard import Guard, open_guard, open_guard_sync
from hooklatch.bridges.pydantic_ai import PromptRefusedError, guard_hooks
from support.bridged import COMMANDS, READINGS, REFUSALS, Bridged, called, example

pytestmark = pytest.mark.slow  # each file imports an SDK and starts workers


class Speaker:
    """An agent whose model calls a tool with each word at once, and is done after that."""

    def __init__(self, guard: Guard, *words: str, **options: Any) -> None:
        self.said: list[str] = []
        self.told: dict[str, str] = {}
        self.requests = 0
        output: Any = [str, DeferredToolRequests] if options.get("approvals") else str
        self.agent = Agent(FunctionModel(self.answer), output_type=output, capabilities=[guard_hooks(guard, **options)])
        self.agent.tool_plain(self.speak)
        self.agent.tool_plain(self.remember)
        self.words = words

    def speak(self, word: str) -> str:
        self.said.append(word)
        if word == "fail":
            raise RuntimeError("no voice")
        return f"said {word}"

    def remember(self, day: date, word: str = "") -> str:
        self.said.append(f"{day:%Y} {word}")
        return "noted"

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests += 1
        parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        self.told = {part.tool_call_id.removeprefix("call-"): str(part.content) for part in parts}
        if parts:
            return ModelResponse(parts=[TextPart("done")])
        calls = [
            ToolCallPart("remember", {"day": "2026-01-02", "word": word[4:]}, f"call-{word}")
            if word.startswith("day-")
            else ToolCallPart(*called(word), f"call-{word}")
            for word in self.words
        ]
        return ModelResponse(parts=calls)


def run(runtime_dir: str, *words: str, prompt: str = "go on", **options: Any) -> Speaker:
    async def main() -> Speaker:
        async with open_guard(runtime_dir=runtime_dir) as guard:
            speaker = Speaker(guard, *words, **options)
            await speaker.agent.run(prompt)
            return speaker

    return asyncio.run(main())


def test_a_result_is_changed_or_withheld_before_the_model_reads_it(place: Bridged) -> None:
    speaker = run(place.runtime_dir, *READINGS)

    assert sorted(speaker.said) == sorted(READINGS)
    assert all(text in speaker.told[word] for word, text in READINGS.items())


def test_each_call_at_the_same_time_gets_its_own_verdict(place: Bridged) -> None:
    speaker = run(place.runtime_dir, "hello", "rewrite", "ask", *REFUSALS)

    assert sorted(speaker.said) == ["hello", "rewritten"]
    assert speaker.told["hello"] == "said hello"
    assert speaker.told["rewrite"] == "said rewritten"
    assert all(text in speaker.told[word] for word, text in REFUSALS.items())
    assert "pydantic-ai cannot ask a person here" in speaker.told["ask"]
    assert place.wait_told("post_tool_use", lambda one: one["tool_input"] == {"word": "rewritten"})
    assert place.wait_told("stop")["result"] == "done"
    assert place.wait_told("model_response")["model_id"]


def test_run_sync_needs_a_guard_of_threads(place: Bridged) -> None:
    with asyncio.Runner() as runner, open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        asyncio.set_event_loop(runner.get_loop())  # else it makes one that nobody closes
        speaker = Speaker(guard, "hello", "deny")
        speaker.agent.run_sync("go on")

    assert speaker.said == ["hello"]
    assert "not said here" in speaker.told["deny"]


def test_arguments_that_are_no_json_are_shown_as_theirs_and_not_rewritten(place: Bridged) -> None:
    speaker = run(place.runtime_dir, "day-", "day-rewrite")

    assert speaker.said == ["2026 "]
    assert ("remember", {"day": "2026-01-02", "word": ""}) in place.asked()
    assert "cannot replace it" in speaker.told["day-rewrite"]


def test_what_a_tool_raises_is_told_and_goes_on(place: Bridged) -> None:
    with pytest.raises(RuntimeError, match="no voice"):
        run(place.runtime_dir, "fail")

    assert "no voice" in place.wait_told("post_tool_use_failure")["error"]


def test_a_refused_prompt_never_reaches_the_model(place: Bridged) -> None:
    speakers: list[Speaker] = []

    async def main() -> None:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            speakers.append(Speaker(guard, "hello"))
            await speakers[0].agent.run("a forbidden thing")

    with pytest.raises(PromptRefusedError, match="not discussed here"):
        asyncio.run(main())

    assert speakers[0].requests == 0


def test_without_a_daemon_nothing_runs(nowhere: str) -> None:
    with pytest.raises(PromptRefusedError, match="Not run: "):
        run(nowhere, "hello")


@pytest.mark.parametrize(("answer", "said"), [(True, ["ask"]), (False, [])])
def test_an_ask_waits_for_a_person(place: Bridged, answer: bool, said: list[str]) -> None:
    async def main() -> Speaker:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            speaker = Speaker(guard, "ask", approvals=True)
            paused: Any = await speaker.agent.run("go on")
            assert [one.tool_name for one in paused.output.approvals] == ["speak"]
            assert paused.output.metadata["call-ask"] == {"reason": "somebody should look at this"}
            await speaker.agent.run(
                message_history=paused.all_messages(),
                deferred_tool_results=DeferredToolResults(approvals={"call-ask": answer}),
            )
            return speaker

    assert asyncio.run(main()).said == said


def test_the_example_runs_what_it_may(place: Bridged) -> None:
    async def main() -> tuple[str, Speaker]:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            speaker = Speaker(guard, *COMMANDS)
            return await example("pydantic_agent").clean(guard, FunctionModel(speaker.answer)), speaker

    text, speaker = asyncio.run(main())

    assert text == "done"
    assert speaker.told == {COMMANDS[0]: "hello\n", COMMANDS[1]: "name the files to remove"}

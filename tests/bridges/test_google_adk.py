"""google-adk with a scripted model: a refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed: pip install 'hooklatch[google-adk]'")

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import Field

from hooklatch.bridges.google_adk import GuardPlugin
from hooklatch.bridges.guard import open_guard
from support.bridged import COMMANDS, READINGS, REFUSALS, Bridged, called, example

pytestmark = pytest.mark.slow  # each file imports an SDK and starts workers


class Script(BaseLlm):
    """A model that calls a tool with each word at once, and is done after that."""

    words: list[str]
    told: dict[str, Any]
    requests: list[LlmRequest] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request)
        answers = [
            part.function_response
            for content in llm_request.contents
            for part in content.parts or []
            if part.function_response
        ]
        if answers:
            self.told.update({(one.id or "").removeprefix("call-"): one.response for one in answers})
            yield LlmResponse(content=types.ModelContent("done"))
            return
        calls = [
            types.Part(function_call=types.FunctionCall(id=f"call-{word}", name=name, args=given))
            for word, (name, given) in ((word, called(word)) for word in self.words)
        ]
        yield LlmResponse(content=types.Content(role="model", parts=calls))


class Speaker:
    """A runner with an agent that says words."""

    def __init__(self, *words: str) -> None:
        self.said: list[str] = []
        self.events: list[Any] = []
        self.model = Script(model="script", words=list(words), told={})

    async def speak(self, word: str) -> dict[str, str]:
        """Say a word."""
        self.said.append(word)
        if word == "fail":
            raise RuntimeError("no voice")
        return {"said": word}

    async def run(self, runtime_dir: str, *contents: types.Content, **options: Any) -> Speaker:
        async with open_guard(runtime_dir=runtime_dir) as guard:
            agent = LlmAgent(name="speaker", model=self.model, tools=[self.speak])
            runner = InMemoryRunner(app=App(name="test", root_agent=agent, plugins=[GuardPlugin(guard, **options)]))
            session = await runner.session_service.create_session(app_name="test", user_id="me")
            for content in contents:
                async for event in runner.run_async(user_id="me", session_id=session.id, new_message=content):
                    self.events.append(event)
            await runner.close()
        return self


def run(runtime_dir: str, *words: str, prompt: str = "go on", **options: Any) -> Speaker:
    return asyncio.run(Speaker(*words).run(runtime_dir, types.UserContent(prompt), **options))


def test_a_result_is_withheld_before_the_model_reads_it(place: Bridged) -> None:
    speaker = run(place.runtime_dir, "said withhold", "said burst")

    told = speaker.model.told
    assert READINGS["withhold"] in told["said withhold"]["error"]
    assert READINGS["burst"] in told["said burst"]["error"]


def test_each_call_at_the_same_time_gets_its_own_verdict(place: Bridged) -> None:
    speaker = run(place.runtime_dir, "hello", "rewrite", "ask", *REFUSALS)

    told = speaker.model.told
    assert sorted(speaker.said) == ["hello", "rewritten"]
    assert told["hello"] == {"said": "hello"}
    assert told["rewrite"] == {"said": "rewritten"}
    assert all(text in told[word]["error"] for word, text in REFUSALS.items())
    assert "google-adk cannot ask a person here" in told["ask"]["error"]
    assert place.wait_told("post_tool_use", lambda one: one["tool_input"] == {"word": "rewritten"})
    assert place.wait_told("stop") == {}


def test_what_a_tool_raises_is_told(place: Bridged) -> None:
    with pytest.raises(RuntimeError, match="no voice"):
        run(place.runtime_dir, "fail")

    assert "no voice" in place.wait_told("post_tool_use_failure")["error"]


def test_a_refused_prompt_never_reaches_the_model(place: Bridged) -> None:
    speaker = run(place.runtime_dir, "hello", prompt="a forbidden thing")

    assert [event.content.parts[0].text for event in speaker.events] == ["that is not discussed here"]
    assert (speaker.said, speaker.model.requests) == ([], [])


def test_without_a_daemon_nothing_runs(nowhere: str) -> None:
    speaker = run(nowhere, "hello")

    assert speaker.said == []
    assert "Not run: " in speaker.events[-1].content.parts[0].text


@pytest.mark.parametrize(("answer", "said"), [(True, ["ask"]), (False, [])])
def test_an_ask_waits_for_a_person(place: Bridged, answer: bool, said: list[str]) -> None:
    confirmation = types.FunctionResponse(id="", name="adk_request_confirmation", response={"confirmed": answer})

    async def main() -> Speaker:
        speaker = Speaker("ask")
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            agent = LlmAgent(name="speaker", model=speaker.model, tools=[speaker.speak])
            runner = InMemoryRunner(
                app=App(name="test", root_agent=agent, plugins=[GuardPlugin(guard, approvals=True)])
            )
            session = await runner.session_service.create_session(app_name="test", user_id="me")

            async def say(content: types.Content) -> list[Any]:
                events = runner.run_async(user_id="me", session_id=session.id, new_message=content)
                return [event async for event in events]

            paused = await say(types.UserContent("go on"))
            (question,) = [
                call for event in paused for call in event.get_function_calls() if call.name == confirmation.name
            ]
            assert "somebody should look" in str(question.args)
            assert speaker.said == []
            confirmation.id = question.id
            await say(types.Content(role="user", parts=[types.Part(function_response=confirmation)]))
            await runner.close()
        return speaker

    assert asyncio.run(main()).said == said


def test_the_example_runs_what_it_may(place: Bridged) -> None:
    model = Script(model="script", words=list(COMMANDS), told={})

    async def main() -> str:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            return await example("adk_agent").clean(guard, model)

    assert asyncio.run(main()) == "done"
    assert model.told == {COMMANDS[0]: {"output": "hello\n"}, COMMANDS[1]: {"error": "name the files to remove"}}

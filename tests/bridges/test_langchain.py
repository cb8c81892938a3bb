"""langchain's create_agent with a scripted model: a refused call never executes, and the model is told why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain", reason="langchain is not installed: pip install 'hooklatch[langchain]'")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import Field

from hooklatch.bridges.guard import open_guard, open_guard_sync
from hooklatch.bridges.langchain import GuardMiddleware
from support.bridged import COMMANDS, READINGS, REFUSALS, Bridged, called, example

pytestmark = pytest.mark.slow  # each file imports an SDK and starts workers

SAID: list[str] = []


@tool
def speak(word: str) -> str:
    """Say a word."""
    SAID.append(word)
    if word == "fail":
        raise RuntimeError("no voice")
    return f"said {word}"


class Script(BaseChatModel):
    """A model that calls a tool with each word at once, and is done after that."""

    words: list[str]
    seen: list[BaseMessage] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *others: Any, **options: Any) -> ChatResult:
        named = [(word, *called(word)) for word in self.words]
        calls = [{"name": name, "args": given, "id": f"call-{word}"} for word, name, given in named]
        is_first = not any(isinstance(one, ToolMessage) for one in messages)
        answer = AIMessage(content="", tool_calls=calls) if is_first else AIMessage(content="done")
        self.seen.extend(messages[-2:])
        return ChatResult(generations=[ChatGeneration(message=answer)])


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    SAID.clear()


def told(result: Any) -> dict[str, tuple[str, str]]:
    answers = [one for one in result["messages"] if isinstance(one, ToolMessage)]
    return {one.tool_call_id.removeprefix("call-"): (one.status, str(one.content)) for one in answers}


def go(prompt: str = "go on") -> Any:
    return {"messages": [{"role": "user", "content": prompt}]}


def check(place: Bridged, result: Any) -> None:
    answers = told(result)

    assert sorted(SAID) == ["hello", "rewritten"]
    assert answers["hello"] == ("success", "said hello")
    assert answers["rewrite"] == ("success", "said rewritten")
    for word, text in REFUSALS.items():
        assert answers[word][0] == "error"
        assert text in answers[word][1]
    assert "langchain cannot ask a person here" in answers["ask"][1]
    assert place.wait_told("post_tool_use", lambda one: one["tool_input"] == {"word": "rewritten"})
    assert place.wait_told("stop")["last_assistant_message"] == "done"


WORDS = ["hello", "rewrite", "ask", *REFUSALS]


def test_an_awaited_agent_gives_each_call_its_own_verdict(place: Bridged) -> None:
    async def main() -> Any:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            agent = create_agent(Script(words=WORDS), [speak], middleware=[GuardMiddleware(guard)])
            return await agent.ainvoke(go())

    check(place, asyncio.run(main()))


def test_a_result_is_changed_or_withheld_before_the_model_reads_it(place: Bridged) -> None:
    async def main() -> Any:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            agent = create_agent(Script(words=list(READINGS)), [speak], middleware=[GuardMiddleware(guard)])
            return await agent.ainvoke(go())

    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        agent = create_agent(Script(words=list(READINGS)), [speak], middleware=[GuardMiddleware(guard)])
        for result in (asyncio.run(main()), agent.invoke(go())):
            read = "".join(str(message.text) for message in result["messages"])
            assert all(text in read for text in READINGS.values())
            assert not [word for word in READINGS if f"said {word}" in read]


def test_an_invoked_agent_too(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        agent = create_agent(Script(words=WORDS), [speak], middleware=[GuardMiddleware(guard)])
        result = agent.invoke(go())

    check(place, result)


def test_an_invoked_agent_with_a_guard_of_a_loop_runs_nothing(place: Bridged) -> None:
    async def main() -> Any:
        async with open_guard(runtime_dir=place.runtime_dir) as guard:
            agent = create_agent(Script(words=["hello"]), [speak], middleware=[GuardMiddleware(guard)])
            return agent.invoke(go())

    result = asyncio.run(main())

    assert SAID == []
    assert "open_guard_sync()" in result["messages"][-1].content


def test_what_a_tool_raises_is_told_and_goes_on(place: Bridged) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        agent = create_agent(Script(words=["fail"]), [speak], middleware=[GuardMiddleware(guard)])
        with pytest.raises(RuntimeError, match="no voice"):
            agent.invoke(go())

    assert place.wait_told("post_tool_use_failure")["error"] == "RuntimeError: no voice"


def test_without_a_daemon_nothing_runs(nowhere: str) -> None:
    with open_guard_sync(runtime_dir=nowhere) as guard:
        middleware = GuardMiddleware(guard)
        agent = create_agent(Script(words=["hello"]), [speak], middleware=[middleware])
        result = agent.invoke(go())
        resumed = agent.invoke({"messages": [AIMessage(content="x"), *go()["messages"], AIMessage(content="y")]})

    assert SAID == []
    assert "Not run: " in result["messages"][-1].content
    assert "Not run: " in told(resumed)["hello"][1]


def test_a_refused_prompt_ends_the_run_before_the_model(place: Bridged) -> None:
    model = Script(words=["hello"])

    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        agent = create_agent(model, [speak], middleware=[GuardMiddleware(guard)])
        result = agent.invoke(go("a forbidden thing"))

    assert result["messages"][-1].content == "that is not discussed here"
    assert (SAID, model.seen) == ([], [])


@pytest.mark.parametrize(("answer", "said"), [(True, ["ask"]), (False, []), ("yes", [])])
def test_an_ask_waits_for_a_person(place: Bridged, answer: object, said: list[str]) -> None:
    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        middleware = GuardMiddleware(guard, approvals=True)
        agent = create_agent(Script(words=["ask"]), [speak], middleware=[middleware], checkpointer=InMemorySaver())
        thread: Any = {"configurable": {"thread_id": "1"}}
        paused = agent.invoke(go(), thread)
        assert (paused["__interrupt__"][0].value["reason"], SAID) == ("somebody should look at this", [])
        agent.invoke(Command(resume=answer), thread)

    assert said == SAID


def test_the_example_runs_what_it_may(place: Bridged) -> None:
    model = Script(words=list(COMMANDS))

    with open_guard_sync(runtime_dir=place.runtime_dir) as guard:
        assert example("langchain_agent").clean(guard, model) == "done"

    answers = told({"messages": model.seen})
    assert answers == {COMMANDS[0]: ("success", "hello\n"), COMMANDS[1]: ("error", "name the files to remove")}

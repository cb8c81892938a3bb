"""Limit calls, minutes, tokens and money of a session, an agent and a day, prompts, and the same call again and again.

Counts are in the state that all workers of this file share, so no call is missed and none is counted twice; with
`[state] kept = true` they outlive the daemon.  Tokens come from `usage` of the event model_response (Codex) and from
the transcripts of Claude Code, which each call reads from where the last one ended; a sub-agent's is read at its calls
and at its end.  A transcript or count that cannot be read denies, since it is unknown what was spent.  An agent is a
session's agent with an id of its own.

This file is yours: change the numbers.  None means that there is no ceiling.  Money is in dollars for a million tokens.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from fnmatch import fnmatchcase
from typing import Any, cast

from hooklatch import deny, hook

CALLS: int | None = 500  # tool calls of a session
CALLS_OF_AN_AGENT: int | None = 250
CALLS_A_DAY: int | None = 5000  # of all sessions, for 24 hours from the first one on
REPEATS: int | None = 25  # times that a session makes exactly the same call within REPEAT_MINUTES
REPEAT_MINUTES = 10
MINUTES: float | None = 600  # of a session that is at work: pauses of more than PAUSE count as PAUSE
MINUTES_OF_AN_AGENT: float | None = 120
MINUTES_A_DAY: float | None = None
PAUSE = 5  # minutes
PROMPTS: int | None = 100  # prompts of a session
TOKENS: int | None = 50_000_000  # of a session, those read from a cache too
TOKENS_OF_AN_AGENT: int | None = None
TOKENS_A_DAY: int | None = 200_000_000
DOLLARS: float | None = 25.0  # of a session
DOLLARS_OF_AN_AGENT: float | None = None
DOLLARS_A_DAY: float | None = 100.0
# By model: input, output, written to a cache, read from it.  The first that matches counts; look up your own.
PRICES = {
    "*haiku*": (1.0, 5.0, 1.25, 0.1),
    "*sonnet*": (3.0, 15.0, 3.75, 0.3),
    "*opus*": (5.0, 25.0, 6.25, 0.5),
    "*": (5.0, 25.0, 6.25, 0.5),
}
READS_TRANSCRIPTS = True
MAX_READ = 32 * 2**20  # bytes of a transcript in one call
DAY = 24 * 3600.0
KEYS = ("calls", "minutes", "tokens", "dollars")
KINDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@hook("pre_tool_use", timeout=5.0, description="ceilings for calls, minutes, tokens and money")
def calls(event: Any) -> Any:
    for scope, mark, whose, ceilings in list_scopes(event, event.agent_id):
        ttl = DAY if whose == "a day" else None
        if scope.increment(f"calls{mark}", ttl=ttl, once=True) > ceilings["calls"]:
            return deny(f"the ceiling of {ceilings['calls']} tool calls for {whose} is reached; a person raises it")
        if count_minutes(scope, mark, ttl) > ceilings["minutes"]:
            return deny(f"the ceiling of {ceilings['minutes']} minutes for {whose} is reached; a person raises it")
    if REPEATS is not None and count_repeats(event) > REPEATS:
        return deny(
            f"this call was made {REPEATS} times in {REPEAT_MINUTES} minutes; do something else, or ask the user"
        )
    try:
        read_transcripts(event)
    except (OSError, ValueError) as error:
        return deny(f"the transcript cannot be read, so it is unknown what was spent: {error}")
    return refuse_if_spent(event)


@hook("user_prompt_submit", timeout=5.0, description="a ceiling for prompts")
def prompts(event: Any) -> Any:
    if PROMPTS is not None and event.state.session.increment("prompts", once=True) > PROMPTS:
        return deny(f"this session has reached its ceiling of {PROMPTS} prompts; start another one")
    return None


@hook("model_response", description="counts tokens and money")
def count_response(event: Any) -> None:
    try:
        count_usage(event, read_counts(event.usage), event.model_id, event.agent_id)
    except ValueError as error:  # this event cannot be refused: the next call is
        event.state.session.set("unreadable", str(error))


@hook("subagent_stop", timeout=5.0, description="counts what a sub-agent has spent since its last call")
def count_agent(event: Any) -> None:
    try:
        read_transcripts(event)
    except (OSError, ValueError) as error:
        event.state.session.set("unreadable", str(error))


def refuse_if_spent(event: Any) -> Any:
    """Refuse if a ceiling is reached."""
    if (problem := event.state.session.get("unreadable")) is not None:
        return deny(f"the host's count of tokens cannot be read, so it is unknown what was spent: {problem}")
    for scope, mark, whose, ceilings in list_scopes(event, event.agent_id):
        if scope.get(f"tokens{mark}", 0) >= ceilings["tokens"]:
            return deny(f"the ceiling of {ceilings['tokens']:,} tokens for {whose} is reached; a person raises it")
        if scope.get(f"millionths{mark}", 0) >= ceilings["dollars"] * 1e6:
            return deny(f"the ceiling of {ceilings['dollars']:.2f} dollars for {whose} is reached; a person raises it")
    return None


def list_scopes(event: Any, agent: object) -> list[tuple[Any, str, str, dict[str, Any]]]:
    """Return what an agent of a session counts in: the state, the end of its keys, whose it is, its ceilings."""
    session, state = event.state.session, event.state
    scopes: list[tuple[Any, str, str, tuple[Any, ...]]] = [
        (session, "", "a session", (CALLS, MINUTES, TOKENS, DOLLARS)),
        (state, "", "a day", (CALLS_A_DAY, MINUTES_A_DAY, TOKENS_A_DAY, DOLLARS_A_DAY)),
    ]
    if isinstance(agent, str) and agent:
        mark = f" {hashlib.sha256(agent.encode()).hexdigest()[:32]}"
        limits = (CALLS_OF_AN_AGENT, MINUTES_OF_AN_AGENT, TOKENS_OF_AN_AGENT, DOLLARS_OF_AN_AGENT)
        scopes.append((session, mark, "an agent", limits))
    none = float("inf")
    return [
        (scope, mark, whose, {key: none if limit is None else limit for key, limit in zip(KEYS, limits, strict=True)})
        for scope, mark, whose, limits in scopes
    ]


def count_minutes(scope: Any, mark: str, ttl: float | None) -> float:
    """Count the time since the last call, and return the minutes of work so far."""
    now, last = time.time(), scope.get(f"at{mark}")
    passed = min(max(now - (now if last is None else last), 0.0), PAUSE * 60.0)
    # Of calls at the same time only one counts the time before them: the one that moves the moment.
    is_first = scope.compare_and_set(f"at{mark}", last, now, ttl=ttl)
    return float(scope.increment(f"seconds{mark}", passed if is_first else 0.0, ttl=ttl)) / 60


def count_repeats(event: Any) -> int:
    """Count this call among those that are exactly like it."""
    call = json.dumps([event.agent_id, event.tool_name, event.tool_input], sort_keys=True)
    key = f"same {hashlib.sha256(call.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return int(event.state.session.increment(key, ttl=REPEAT_MINUTES * 60.0, once=True))


def read_counts(usage: object) -> list[int]:
    """Return the tokens of one response of a model, by `KINDS`.

    Raises:
        ValueError: these are not counts.
    """
    if usage is None:
        return [0] * len(KINDS)
    if not isinstance(usage, dict):
        raise ValueError(f"{usage!r} is not a table of counts")
    given = cast("dict[str, object]", usage)
    counts = [read_count(given.get(kind)) for kind in KINDS]
    if not any(counts) and "totalTokenCount" in given:  # Gemini's words
        prompt = read_count(given.get("promptTokenCount"))
        counts = [prompt, max(read_count(given["totalTokenCount"]) - prompt, 0), 0, 0]
    elif given.keys().isdisjoint(KINDS) and any(isinstance(value, int | float | dict) for value in given.values()):
        raise ValueError(f"{', '.join(given)}: none of these is a count that is known")
    return counts


def count_usage(event: Any, counts: list[int], model: object, agent: object) -> None:
    """Count the tokens and money of one response of a model to an agent, or to the session itself (None)."""
    price = next((row for pattern, row in PRICES.items() if fnmatchcase(str(model).lower(), pattern)), PRICES["*"])
    millionths = round(sum(count * rate for count, rate in zip(counts, price, strict=True)))
    for scope, mark, whose, _ in list_scopes(event, agent):
        ttl = DAY if whose == "a day" else None
        scope.increment(f"tokens{mark}", sum(counts), ttl=ttl)
        scope.increment(f"millionths{mark}", millionths, ttl=ttl)


def read_count(value: object) -> int:
    """Return a count; a host that sends none has counted none.

    Raises:
        ValueError: it is not a count.
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a number of tokens")
    return value


def read_transcripts(event: Any) -> None:
    """Count what was added to the transcripts of the session and of the agent of this event.

    Raises:
        OSError, ValueError: one is named, and cannot be read.
    """
    fields: dict[str, Any] = {**event.payload, **(event.metadata or {})}
    path = fields.get("transcript_path")
    if not READS_TRANSCRIPTS or path is None or event.host != "claude-code":
        return
    read_transcript(event, path, "")
    if event.agent_id:
        # A folder that is not there yet has nothing to count; one that cannot be listed denies.
        for folder, _, names in os.walk(f"{path.removesuffix('.jsonl')}/subagents", onerror=raise_unless_absent):
            if (name := f"agent-{event.agent_id}.jsonl") not in names:
                continue
            file = os.path.join(folder, name)
            read_transcript(event, file, f" {hashlib.sha256(file.encode()).hexdigest()[:32]}")


def raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def read_transcript(event: Any, path: str, mark: str) -> None:
    """Count what was added to a transcript since it was last read; `mark` is the end of its keys.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    state = event.state.session
    offset = state.get(f"read{mark}", 0)
    with open(path, "rb") as file:
        begin = (
            offset if offset <= file.seek(0, os.SEEK_END) else 0
        )  # shorter: it was written anew, and all of it counts
        file.seek(begin)
        data = file.read(MAX_READ)
    end = data.rfind(b"\n") + 1
    if not end:
        if len(data) == MAX_READ:
            raise ValueError(f"a line of {path} is longer than {MAX_READ} bytes")
        return
    usages: dict[object, tuple[list[int], object, object]] = {}
    for line in data[:end].splitlines():
        entry: dict[str, Any] = json.loads(line)
        message: Any = entry.get("message")
        if isinstance(message, dict) and "usage" in message:
            response = cast("dict[str, Any]", message)
            spent = read_counts(response["usage"]), response.get("model"), entry.get("agentId")
            usages[response.get("id")] = spent  # a response may take several lines
    # Of calls at the same time only one counts these lines: the one that moves the offset.
    if not state.compare_and_set(f"read{mark}", offset or None, begin + end):
        return
    last = state.get(f"last{mark}")
    for key, (counts, model, agent) in usages.items():
        if key != last:
            count_usage(event, counts, model, agent)
    if usages:
        state.set(f"last{mark}", list(usages)[-1])

"""What the real programs' models read of results that no guard let through."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hooklatch.guards.catalogue import read_guard_source
from real_hosts.guarded import Guarded, guarded
from real_hosts.hosts.claude_code import ClaudeCode
from real_hosts.hosts.codex import Codex
from real_hosts.hosts.gemini import Gemini
from real_hosts.hosts.opencode import OpenCode
from real_hosts.model.conversation import Call
from real_hosts.results import ResultCases, secret
from real_hosts.theatre import Stage
from support.commands import serving

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]


class TestClaudeCode(ResultCases):
    host = ClaudeCode()

    def others(self, it: Guarded) -> Sequence[Call]:
        return [Call("Read", {"file_path": f"{it.place.project}/read.txt"})]


class TestCodex(ResultCases):
    host = Codex()

    def test_tokens_of_its_model_count_and_end_the_calls(self, stage: Stage) -> None:
        text = read_guard_source("ceilings").replace("TOKENS: int | None = 50_000_000", "TOKENS: int | None = 35")
        with guarded(self.host, stage, "readers.py") as it:
            it.ground.write({"hooks.toml": "", "hooks.d/ceilings.py": text})
            with serving(it.ground):
                outcome = it.play(*map(self.prints, ("one", "two", "three")))

        # Each response takes 20 tokens; the last one may be counted while its own call is judged.
        assert secret("one") in outcome.told_of("main", 0)
        assert "the ceiling of 35 tokens for a session is reached" in outcome.told_of("main", 2)


class TestGemini(ResultCases):
    host = Gemini()

    def others(self, it: Guarded) -> Sequence[Call]:
        return [Call("read_file", {"file_path": f"{it.place.project}/read.txt"})]


class TestOpenCode(ResultCases):
    host = OpenCode()

    def others(self, it: Guarded) -> Sequence[Call]:
        return [Call("read", {"filePath": f"{it.place.project}/read.txt"})]

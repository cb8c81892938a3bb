"""What the real programs' models read of results that no guard let through."""

from __future__ import annotations

import json
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

    @pytest.mark.parametrize("row", ["deny", "redact", "raise"])
    def test_a_result_that_another_hook_gives_back_is_not_read_either(self, stage: Stage, row: str) -> None:
        with guarded(self.host, stage, "readers.py", is_installed=False) as it, serving(it.ground):
            given_back = {"stdout": secret(row), "stderr": "", "interrupted": False, "isImage": False}
            specific = {"hookEventName": "PostToolUse", "updatedToolOutput": given_back}
            (it.place.folder / "answer.json").write_text(json.dumps({"hookSpecificOutput": specific}))
            line = f"sleep 3; cat {it.place.folder}/answer.json"  # it answers last
            handler = {"type": "command", "command": line}
            it.place.add(".claude/settings.json", hooks={"PostToolUse": [{"hooks": [handler]}]})
            it.install()
            outcome = it.play(self.prints(row))

        assert outcome.called
        assert secret(row) not in str([request["body"] for request in outcome.requests])

    def test_another_hook_that_leaves_the_result_alone_ends_nothing(self, stage: Stage) -> None:
        with guarded(self.host, stage, "readers.py", is_installed=False) as it, serving(it.ground):
            context = {"hookEventName": "PostToolUse", "additionalContext": "formatted"}
            handler = {"type": "command", "command": f"echo '{json.dumps({'hookSpecificOutput': context})}'"}
            it.place.add(".claude/settings.json", hooks={"PostToolUse": [{"hooks": [handler]}]})
            it.install()
            outcome = it.play(self.prints("deny"), self.prints("redact"), self.prints("pass"))

        assert "withheld by deny_reader" in outcome.told_of("main", 0)
        assert "row-redact-redacted" in outcome.told_of("main", 1)
        assert secret("pass") in outcome.told_of("main", 2)


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

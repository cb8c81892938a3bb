"""What the real programs' models read of results that no guard let through."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from real_hosts.guarded import Guarded
from real_hosts.hosts.claude_code import ClaudeCode
from real_hosts.hosts.codex import Codex
from real_hosts.hosts.gemini import Gemini
from real_hosts.hosts.opencode import OpenCode
from real_hosts.model.conversation import Call
from real_hosts.results import ResultCases

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]


class TestClaudeCode(ResultCases):
    host = ClaudeCode()

    def others(self, it: Guarded) -> Sequence[Call]:
        return [Call("Read", {"file_path": f"{it.place.project}/read.txt"})]


class TestCodex(ResultCases):
    host = Codex()


class TestGemini(ResultCases):
    host = Gemini()

    def others(self, it: Guarded) -> Sequence[Call]:
        return [Call("read_file", {"file_path": f"{it.place.project}/read.txt"})]


class TestOpenCode(ResultCases):
    host = OpenCode()

    def others(self, it: Guarded) -> Sequence[Call]:
        return [Call("read", {"filePath": f"{it.place.project}/read.txt"})]

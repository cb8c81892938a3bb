"""Claude Code itself with hooklatch installed."""

from __future__ import annotations

import pytest

from real_hosts.bare import bare_results
from real_hosts.cases import Cases
from real_hosts.hosts.claude_code import ClaudeCode
from real_hosts.hosts.every import STRICT
from real_hosts.page import STRICT_TITLE, column_of, read_page
from real_hosts.theatre import Stage

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]


class TestClaudeCode(Cases):
    host = ClaudeCode()

    def test_the_page_says_what_its_own_way_to_fail_closed_does(self, stage: Stage) -> None:
        assert read_page()[STRICT_TITLE] == column_of(bare_results(STRICT, stage), {})

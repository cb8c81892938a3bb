"""Codex itself with hooklatch installed."""

from __future__ import annotations

import pytest

from real_hosts.cases import Cases
from real_hosts.hosts.codex import Codex

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]


class TestCodex(Cases):
    host = Codex()

"""OpenCode itself with hooklatch installed."""

from __future__ import annotations

import pytest

from real_hosts.cases import Cases
from real_hosts.hosts.opencode import OpenCode

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(600)]


class TestOpenCode(Cases):
    host = OpenCode()

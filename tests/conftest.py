"""Fixtures and settings that more than one folder of tests uses."""

import pytest

pytest.register_assert_rewrite("support")

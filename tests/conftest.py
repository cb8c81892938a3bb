"""Settings that hold for every test."""

import pytest

pytest.register_assert_rewrite("support")

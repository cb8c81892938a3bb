"""What is fuzzed: each reader of bytes that somebody else wrote, with what must hold of all that it accepts.

A target takes bytes and returns, or breaks.  The errors that a reader promises are caught here, and nothing else is:
any other exception is a finding.  `test_readers.py` feeds them from Hypothesis, `coverage_guided.py` from atheris.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz import files, systems, wires

__all__ = ["TARGETS", "Target"]

Target = Callable[[bytes], object]
TARGETS: dict[str, Target] = {
    "frames": wires.read_frames,
    "lines": wires.read_lines,
    "verdicts": wires.read_verdict,
    "payload": wires.read_payload,
    "matchers": files.compile_pattern,
    "conditions": files.judge_conditions,
    "definitions": files.read_definitions,
    "configuration": files.read_configuration,
    "settings": files.read_settings_file,
    "importing": files.import_hooks,
    "dialects": systems.read_dialect,
    "native": systems.read_native,
    "rendering": systems.read_rendered,
    "registrations": systems.read_registrations,
    "host": systems.read_host,
    "custom_events": files.read_custom_event,
    "language_servers": wires.read_language_server,
    "shell_answers": wires.read_shell_answer,
    "policy_cases": files.read_policy_cases,
}

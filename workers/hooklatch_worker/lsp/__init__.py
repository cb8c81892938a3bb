"""Language servers: diagnostics appended to an edit's result.

`diagnostics.diagnose` is the target; a worker keeps its servers warm.
"""

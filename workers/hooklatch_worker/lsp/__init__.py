"""Language servers, whose diagnostics are appended to the result of an edit.

`diagnostics.diagnose` is the target; a worker keeps its servers warm.
"""

"""Turns other systems' hook files into ours.  Knows their shapes; opens no file and starts nothing.

    Claude Code   {"hooks": {Event: [{"matcher", "hooks": [{"type": "command", "command", "timeout"}]}]}}   seconds
    Reasonix      {"hooks": {Event: [{"match", "command", "timeout", "cwd", "description"}]}}          milliseconds
    Radium        [[hooks]] name, type, priority, enabled, script, config

    bytes ─▶ documents: which of them is it ─▶ claude | reasonix | radium: one entry each ─▶ collecting ─▶ writing

What is imported keeps its payload form and its table of exit codes, so a script goes on working as it stands.  What
cannot be kept is said, a line for each; nothing is dropped in silence, and no guard becomes weaker without a word.
"""

from hooklatch.importing.collecting import Imported, ImportedHook, Note
from hooklatch.importing.documents import UnreadableFileError, read_hooks

__all__ = ["Imported", "ImportedHook", "Note", "UnreadableFileError", "read_hooks"]

"""Converts other systems' hook files.  Knows their shapes; does not open files or start processes.

    Claude Code   {"hooks": {Event: [{"matcher", "hooks": [{"type": "command", "command", "timeout"}]}]}}   seconds
    Reasonix      {"hooks": {Event: [{"match", "command", "timeout", "cwd", "description"}]}}          milliseconds
    Radium        [[hooks]] name, type, priority, enabled, script, config

    bytes ─▶ documents: detect the system ─▶ claude | reasonix | radium: one entry each ─▶ collecting
                                                           ─▶ writing: a file for hooks.d  |  registering: definitions

Imported hooks keep their payload form and exit code table, so scripts work unchanged.  Whatever cannot be kept gets a
note; nothing is dropped silently, and no guard becomes weaker without a note.
"""

from hooklatch.importing.collecting import ImportedHook, ImportNote, ImportResult
from hooklatch.importing.documents import UnreadableFileError, read_hooks

__all__ = ["ImportResult", "ImportedHook", "ImportNote", "UnreadableFileError", "read_hooks"]

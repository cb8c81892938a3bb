"""A converter for other systems' hook files.  Opens no file and starts no process.

    result = read_hooks("settings.json", data)
    text = write_toml(result, origin=path, stem="claude")

    Claude Code   {"hooks": {Event: [{"matcher", "hooks": [{"type": "command", "command", "timeout"}]}]}}   seconds
    Reasonix      {"hooks": {Event: [{"match", "command", "timeout", "cwd", "description"}]}}          milliseconds
    Radium        [[hooks]] name, type, priority, enabled, script, config

    bytes ─▶ documents: detect the system ─▶ claude | reasonix | radium: one entry each ─▶ collecting
                                                           ─▶ writing: a file for hooks.d  |  registering: definitions

Imported hooks keep their payload form and exit code table, so scripts work unchanged.  Everything that cannot be kept
gets a note: nothing is dropped silently, and no guard becomes weaker without a note.
"""

from hooklatch.importing.collecting import ImportedHook, ImportNote, ImportResult
from hooklatch.importing.documents import UnreadableFileError, read_hooks

__all__ = ["ImportResult", "ImportedHook", "ImportNote", "UnreadableFileError", "read_hooks"]

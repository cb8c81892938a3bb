"""The texts of the keys of hooks.toml, a line each: editors show them, and docs/reference is made from them.

They are by the name of the class that reads the table, and leave out keys that the class itself describes.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["KEYS", "describe_tables"]

KEYS: Final[dict[str, dict[str, str]]] = {
    "SourceTable": {
        "path": "A file of hooks, relative to this one; or `module`.",
        "module": "An installed module with hooks; or `path`.",
        "workers": "Largest number of its processes; default: what [workers] says.",
        "isolation": "What its hooks may do besides answering; default: what [isolation] says.",
        "python": "The interpreter whose packages it imports; default: the daemon's own.",
        "files": "Data that its hooks read, relative to its folder: watched, and the same bytes in all workers.",
    },
    "HookTable": {
        "command": "A line for /bin/sh; its exit code is the verdict.",
        "argv": "A program and its arguments, without a shell; in place of `command`.",
        "cwd": "Where the command runs, relative to the folder that `run_in` says.",
        "env": "Variables for the command, beside those that all hooks have.",
        "event": "The event, or a list of events, that it is called for.",
        "description": "A line for people.",
        "enabled": "Whether it runs at all.",
        "config": "A table of its own: `event.config` in the function, `config` on standard input.",
        "plugin": "Which plugin it counts as; for `register`, not for a file.",
    },
    "EventDefinition": {
        "name": "What the event is called.",
        "model": "How its hooks are asked, and how their answers combine.",
        "verdicts": "Which verdicts its hooks may give; with `deny` a hook that fails denies.",
        "outputs": "Which outputs they may give: `inject`, `append`, `resume`, `value`.",
        "patch": "Which keys of the payload they may change.",
        "match": "The field that `match` of a hook is compared with.",
        "combine": "Of an amend: which patch counts where several change a key.",
        "view": "Of an amend: whether each hook sees the payload as it was, or as changed so far.",
        "timeout": "Seconds that a call of its hooks may take.",
        "fields": "The fields of its payload, with their types.",
        "when": "When it fires; a line for people.",
    },
    "WorkersTable": {
        "workers": "Largest number of processes for each source.",
        "calls": "After so many calls a worker is replaced.",
        "age": "After so many seconds a worker is replaced.",
        "memory_mib": "Resident memory over which a worker is killed, also during a call.",
        "total_mib": "The same for a worker and everything that it started.",
        "processes": "Processes below one worker, over which all of them are killed.",
        "threads": "Threads of a worker and all below it, over which they are killed; at the level strict.",
        "open_files": "Files that a worker may have open.",
        "file_mib": "Largest file that a worker may write.",
    },
    "OverrideTable": {
        "id": "Of which hook of a plugin, or built-in hook, the keys below are replaced.",
        "enabled": "Whether it runs at all.",
        "observe": "Run it and record what it says; enforce nothing.",
        "optional": "Its failure lets the action pass, on a gate too.",
        "amends": "It changes the payload, so it runs before the guards.",
        "only_judges": "It changes nothing, so such guards run at the same time.",
    },
    "PersonalityTable": {
        "plugins": "The plugins that a session of this personality allows.",
    },
    "LspTable": {
        "enabled": "Whether files are checked after edits.",
        "timeout": "Seconds that a check may take.",
        "severities": "Which diagnostics are told.",
        "servers": "A command by extension, in place of the usual ones; an empty list turns an extension off.",
        "isolation": "What the language servers may do.",
    },
    "DaemonTable": {
        "record": "When a decision counts as recorded: written to the file, or synced to the disk.",
        "metrics_port": "A port of 127.0.0.1 where metrics are served.",
        "metrics_file": "A file that metrics are written to.",
    },
    "RecordTable": {
        "segment_mib": "A segment of the record ends at this size.",
        "segment_hours": "Or at this age.",
        "keep_mib": "The oldest segments go when there is more.",
        "keep_days": "Or when they are older.",
        "excerpt_bytes": "How much of a payload is on record; 0: only its digest.",
        "redact": "Globs of keys whose values are left out; replaces the default list.",
        "redact_text": "Patterns that are left out of every text; replaces the default list.",
        "low_mib": "Free space under which `status` warns.",
        "critical_mib": "Free space under which only gates are recorded, without excerpts.",
        "full_mib": "Free space under which gates are denied, cause `audit`.",
        "payloads_keep_mib": "The oldest files of whole payloads go when there is more.",
        "payloads_keep_days": "Or when they are older.",
        "skipping": "false: each event is on record, also one that no hook listens to.",
    },
    "IsolationTable": {
        "level": "What hooks may do besides answering.",
        "if_unavailable": "If the kernel cannot do that: start no worker, or report it and run with what there is.",
        "write": "Files and folders that stay writable.",
        "read": "The same for reading, with `strict`; what can be written can be read.",
        "network": "Whether restricted workers may use the network.",
    },
    "StateTable": {
        "kept": "Whether what hooks remember outlives the daemon.",
    },
    "FleetTable": {
        "name": "What the fleet is called.",
        "url": "Its engine; never with a password in it.",
        "keys": "The public keys whose signatures are believed.",
        "user": "Who this host is at the engine.",
        "password_file": "A file with the password, relative to this one; mode 600.",
        "ca": "The certificate of the engine's authority; default: what the system trusts.",
        "host": "What this host is called; default: the machine's name.",
        "labels": "Which rollouts are for this host.",
        "max_staleness": "Longest time without contact that is in order.",
        "when_stale": "What gates do after that: go on with the last policy, or deny.",
        "fields": "Which fields of a record leave the machine.",
        "keep_unshipped_mib": "How much that the engine does not have is kept in spite of [record] keep_*.",
        "reconnect": "Longest pause before the link tries again.",
    },
    "AskTable": {
        "wait": "How long an ask waits for a person, in seconds or as a duration; 0: the agent asks, as it can.",
        "agents": "Whose asks wait: those of all, or of agents that cannot ask a person themselves.",
    },
}  # fmt: skip


def describe_tables(shapes: dict[str, dict[str, Any]]) -> None:
    """Add these texts to the schemas of the tables, by name."""
    for name, texts in KEYS.items():
        properties = shapes[name]["properties"]
        for key, text in texts.items():
            properties[key] = {"description": text, **properties[key]}

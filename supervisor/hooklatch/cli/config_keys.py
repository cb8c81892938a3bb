"""The texts of the keys of hooks.toml, a line each: editors show them, and docs/reference is made from them.

They are by the name of the class that reads the table, and leave out keys that the class itself describes.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["KEYS", "describe_tables"]

KEYS: Final[dict[str, dict[str, str]]] = {
    "SourceTable": {
        "path": "A file of hooks, relative to this one (or `module`).",
        "module": "An installed module with hooks (or `path`).",
        "git": "A repository of guards (or `path`); `hooklatch sources update` fetches it.",
        "rev": "The commit of the repository by its whole id, or a tag that one of `signers` has signed.",
        "signers": "The public SSH keys that may sign the tag, each as a line of text.",
        "workers": "Largest number of its processes (default: as [workers]).",
        "isolation": "What its hooks may do besides answering (default: as [isolation]).",
        "python": "The interpreter whose packages it imports (default: the daemon's own).",
        "files": "Data that its hooks read, relative to its folder: watched, and the same bytes in all workers.",
    },
    "HookTable": {
        "command": "A line for /bin/sh. Its exit code is the verdict.",
        "argv": "A program and its arguments, without a shell (in place of `command`).",
        "cwd": "Where the command runs, relative to the folder of `run_in`.",
        "env": "Variables for the command, in addition to those of all hooks.",
        "event": "The event, or a list of events, for which it is called.",
        "description": "A line for people.",
        "enabled": "Whether it runs at all.",
        "config": "A table of its own: `event.config` in the function, `config` on standard input.",
        "plugin": "The plugin to which it belongs (for `register`, not for a file).",
    },
    "EventDefinition": {
        "name": "The name of the event.",
        "model": "How its hooks are called, and how their answers combine.",
        "verdicts": "The verdicts that its hooks may give. With `deny` a hook that fails denies.",
        "outputs": "The outputs that its hooks may give: `inject`, `append`, `resume`, `value`.",
        "patch": "The keys of the payload that its hooks may change.",
        "match": "The field that is compared with a hook's `match`.",
        "combine": "For an amend: the patch that counts if several change a key.",
        "view": "For an amend: whether each hook sees the original payload, or the payload as changed so far.",
        "timeout": "Seconds that a call of its hooks may take.",
        "fields": "The fields of its payload, with their types.",
        "when": "When it fires (a line for people).",
    },
    "WorkersTable": {
        "workers": "Largest number of processes for each source.",
        "calls": "A worker is replaced after this number of calls.",
        "age": "A worker is replaced at this age, in seconds.",
        "memory_mib": "Largest resident memory of a worker. Above it the worker is killed, also during a call.",
        "total_mib": "The same for a worker and everything that it started.",
        "processes": "Largest number of processes below one worker. Above it all of them are killed.",
        "threads": "Threads of a worker and all below it, above which they are killed (only at level strict).",
        "open_files": "Largest number of files that a worker may have open.",
        "file_mib": "Largest file that a worker may write.",
    },
    "OverrideTable": {
        "id": "The hook of a plugin, or the built-in hook, whose keys below are replaced.",
        "enabled": "Whether it runs at all.",
        "observe": "Run it and record its answers, but enforce nothing.",
        "optional": "A failure lets the action pass, on a gate too.",
        "amends": "It changes the payload, so it runs before the guards.",
        "only_judges": "It changes nothing, so such guards run at the same time.",
    },
    "PersonalityTable": {
        "plugins": "The plugins that a session of this personality allows.",
    },
    "LspTable": {
        "enabled": "Whether files are checked after edits.",
        "timeout": "Seconds that a check may take.",
        "severities": "The diagnostics that are reported.",
        "servers": "A command for each extension, in place of the default. An empty list turns an extension off.",
        "isolation": "What the language servers may do.",
    },
    "DaemonTable": {
        "record": "When a decision counts as recorded: written to the file, or synced to the disk.",
        "metrics_port": "The port of 127.0.0.1 on which metrics are served.",
        "metrics_file": "The file to which metrics are written.",
    },
    "RecordTable": {
        "segment_mib": "A segment of the record ends at this size.",
        "segment_hours": "Or at this age.",
        "keep_mib": "The oldest segments are removed when there is more.",
        "keep_days": "Or when they are older.",
        "excerpt_bytes": "Bytes of a payload that are recorded (0: only its digest).",
        "redact": "Globs of keys whose values are left out. Replaces the default list.",
        "redact_text": "Patterns that are left out of every text. Replaces the default list.",
        "low_mib": "Free space under which `status` warns.",
        "critical_mib": "Free space under which only gates are recorded, without excerpts.",
        "full_mib": "Free space under which gates are denied, cause `audit`.",
        "payloads_keep_mib": "The oldest files of whole payloads are removed when there is more.",
        "payloads_keep_days": "Or when they are older.",
        "skipping": "false: each event is recorded, even if no hook listens to it.",
    },
    "IsolationTable": {
        "level": "What hooks may do besides answering.",
        "if_unavailable": "If the kernel lacks support: start no worker, or report it and run with the supported part.",
        "write": "Files and folders that stay writable.",
        "read": "The same for reading, with `strict`. Writable paths are also readable.",
        "network": "Whether restricted workers may use the network.",
    },
    "StateTable": {
        "kept": "Whether shared state outlives the daemon.",
    },
    "FleetTable": {
        "name": "The name of the fleet.",
        "url": "The URL of its engine, without a password.",
        "log_url": "That of the engine for records and reports (default: the same).",
        "keys": "The public keys whose signatures are trusted.",
        "user": "The engine's user for this host.",
        "password_file": "A file with the password, relative to this one (mode 600).",
        "ca": "The certificate of the engine's authority (default: the system's).",
        "host": "The name of this host (default: the machine's name).",
        "labels": "The labels by which rollouts select this host.",
        "max_staleness": "Longest permitted time since the newest timestamp that was true of this host.",
        "when_stale": "What gates do after that: decide by the last policy, or deny.",
        "when_none": "What gates do while no policy has been proven on this host: deny, or decide without one.",
        "image": "A folder with the policy with which a host without one begins: a copy of a host's, or an archive's.",
        "fields": "The fields of an entry that leave the machine.",
        "needs_tests": "Whether `fleet push` from here refuses a policy without tests.",
        "keep_unshipped_mib": "How much unshipped data is kept in spite of [record] keep_*.",
        "reconnect": "Longest pause before the link tries again.",
    },
    "AskTable": {
        "wait": "How long an ask waits for a person, in seconds or as a duration (0: the agent asks, as it can).",
        "agents": "The agents whose asks wait: all, or those that cannot ask a person themselves.",
        "notify": "Who tells a person that an ask begins to wait.",
    },
    "NotifyTable": {
        "desktop": "Whether `notify-send` (on macOS `osascript`) shows it on the daemon's user's desktop.",
        "command": "A program and its arguments, without a shell. The ask is on its standard input, as JSON.",
        "webhook": "An https URL, or http on the loopback, to which the same JSON is posted.",
        "timeout": "Seconds after which a notifier is killed, with all that it started.",
    },
}  # fmt: skip


def describe_tables(shapes: dict[str, dict[str, Any]]) -> None:
    """Add these texts to the schemas of the tables, by name."""
    for name, texts in KEYS.items():
        properties = shapes[name]["properties"]
        for key, text in texts.items():
            properties[key] = {"description": text, **properties[key]}

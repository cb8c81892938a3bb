"""Faults that this project once had, each as a text that replaces another one of today's source.

`install` puts one back: the changed source is compiled in place of the file when its module is imported.  The old text
must stand there exactly once, so that none rots unseen (test_faults.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

__all__ = ["FAULTS", "UNSEEN", "Fault", "install"]

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """A fault: what is wrong, the invariant that must see it (a letter of judge.py), and which text changes where."""

    sentence: str
    letter: str
    module: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """Return the file of the module."""
        root = "workers" if self.module.startswith("hooklatch_worker") else "supervisor"
        return ROOT / root / (self.module.replace(".", "/") + ".py")

    def change(self) -> CodeType:
        """Return the module's code with the fault.

        Raises:
            ValueError: the old text is not there exactly once.
        """
        text = self.path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path} has the text {text.count(self.old)} times: {self.old}")
        return compile(text.replace(self.old, self.new), str(self.path), "exec", dont_inherit=True)


class FaultLoader(importlib.machinery.SourceFileLoader):
    """The loader of one module with a fault."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._changed = code

    def get_code(self, fullname: str) -> CodeType:
        return self._changed


class FaultFinder:
    """A finder of one module."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._code = fault, fault.change()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._fault.module:
            return None
        file = str(self._fault.path)
        return importlib.util.spec_from_file_location(name, file, loader=FaultLoader(name, file, self._code))


def install(name: str) -> None:
    """Put a fault back, before anything of hooklatch is imported."""
    fault = {**FAULTS, **UNSEEN}[name]
    if fault.module in sys.modules:
        raise RuntimeError(f"{fault.module} is imported already")
    sys.meta_path.insert(0, FaultFinder(fault))


PROCESSES, SERVICE, STORAGE = "hooklatch.processes", "hooklatch.service", "hooklatch.record.storage"

FAULTS: Mapping[str, Fault] = {
    # -- workers ---------------------------------------------------------------------------------------------
    "any_answer": Fault(
        "The id of a worker's answer is not compared with that of its call.",
        "A",
        f"{PROCESSES}.worker",
        "if message.call_id != self._call_id or len(message.earlier_seconds) != self._begun:",
        "if False:",
    ),
    "second_answer": Fault(
        "A second answer of a worker is not refused, and waits for the next call.",
        "A",
        f"{PROCESSES}.worker",
        """        if self._reader.held:
            raise wire.FrameError("more than one answer to a call")
""",
        "",
    ),
    "rest_dropped": Fault(
        "Bytes behind a whole frame are forgotten.",
        "A",
        "hooklatch_worker.wire",
        '                self.held, self._begin = (buffer, end) if end < len(buffer) else (b"", 0)\n',
        '                self.held, self._begin = b"", 0\n',
    ),
    "crash_passes": Fault(
        "The end of a worker's socket during a call counts as no opinion.",
        "A",
        f"{PROCESSES}.worker",
        "            return await self._build_crash()\n",
        "            return wire.CallAnswered(self.generation, self._call_id, b'null')\n",
    ),
    "wrong_blame": Fault(
        "The progress of a call of several hooks is not read, so the first one is blamed.",
        "B",
        f"{PROCESSES}.worker",
        "            if number != following_call.call_id:\n",
        "            if True:\n",
    ),
    "abandoned_is_idle": Fault(
        "A worker whose client left counts as idle, though it still runs the hook.",
        "B",
        f"{PROCESSES}.pool",
        "        self._abandon(begun.worker, max([begun.deadline, *later]))\n",
        "        self._give_back(begun.worker, trio.current_time(), is_fit=True)\n",
    ),
    "late_not_killed": Fault(
        "A worker whose call is past its deadline is left alone.",
        "C",
        f"{PROCESSES}.pool",
        "                        worker.expire()\n",
        "                        worker.deadline = math.inf\n",
    ),
    "handle_kept": Fault(
        "The descriptors of a worker that died while it was idle stay open.",
        "D",
        f"{PROCESSES}.pool",
        "                self._idle.remove(worker)\n            worker.close()\n",
        "                self._idle.remove(worker)\n",
    ),
    "waiter_lost": Fault(
        "A worker that becomes free serves nobody who waits.",
        "C",
        f"{PROCESSES}.pool",
        """            if not self._queue.waiting:
                return
        self._serve_waiting()
        self._fill()

    def recycle""",
        """            return
        self._fill()

    def recycle""",
    ),
    # -- answers, and what they are about --------------------------------------------------------------------
    "short_write": Fault(
        "What the kernel did not take of a line lacks a byte.",
        "A",
        f"{SERVICE}.transport.lines",
        "memoryview(data)[sent:]",
        "memoryview(data)[sent + 1 :]",
    ),
    "stale_view": Fault(
        "A commit does not outdate the snapshots of sessions.",
        "E",
        f"{SERVICE}.registry.registries",
        "        self._epoch += 1\n",
        "",
    ),
    "unregistered_stays": Fault(
        "A hook that a session registers anew is the one that it had before.",
        "E",
        f"{SERVICE}.registry.registries",
        "            session.own[hook.id] = hook\n",
        "            session.own.setdefault(hook.id, hook)\n",
    ),
    "unheard_change": Fault(
        "Subscribers to the registry do not hear of a commit.",
        "E",
        f"{SERVICE}.registry.registries",
        "            self.announcer.publish(None, make_announcement(old, new, change))\n        if hands_down:",
        "        if hands_down:",
    ),
    "abandoned_unsaid": Fault(
        "A gate whose client left is not in the record.",
        "F",
        f"{SERVICE}.dispatch.dispatcher",
        "self._record.append_abandoned(fire.spec.name, fire.decision_id, revision, fire.prepare_record())\n",
        "pass\n",
    ),
    "answered_first": Fault(
        "The entry of a decision follows its answer.",
        "F",
        f"{SERVICE}.dispatch.dispatcher",
        "            decision = replace(decision, record=record.append_decision(decision, facts))\n",
        """            from hooklatch.core.messages import ChainHead

            async def append(later: FireDecision) -> None:
                await trio.sleep(0.001)
                record.append_decision(later, facts)

            trio.lowlevel.spawn_system_task(append, decision)
            decision = replace(decision, record=ChainHead(record.head.seq + 1, "0" * 32))
""",
    ),
    "served_error_passes": Fault(
        "A served hook that has not answered in time has no opinion.",
        "A",
        f"{SERVICE}.transport.served_calls",
        "        outcome = pending.outcome if ended < deadline else NO_ANSWER\n",
        """        outcome = pending.outcome if ended < deadline else CallOutcome(cause="policy", answer=b"null")
""",
    ),
    "count_not_kept": Fault(
        "A change of shared state counts, and is not in the journal.",
        "G",
        f"{SERVICE}.dispatch.shared_state",
        "            self._journal.append(self._journal.seal(scope, key, entry, now))\n",
        "            self._journal.seal(scope, key, entry, now)\n",
    ),
    # -- files and sources -----------------------------------------------------------------------------------
    "stale_source": Fault(
        "Another content of a file of hooks is no new version.",
        "E",
        f"{SERVICE}.loading.sources",
        "        if version.source != self.source or not is_usable:\n            return version\n",
        "        if not is_usable:\n            return version\n",
    ),
    "pool_ends_early": Fault(
        "The workers of a version that is replaced end before the fires that use them.",
        "B",
        f"{SERVICE}.loading.sources",
        "        await self._wait_quiesced()\n        self.discard(unit)\n",
        "        await trio.lowlevel.checkpoint()\n        self.discard(unit)\n",
    ),
    "broken_forgets": Fault(
        "A file that breaks takes its hooks with it: the last good version does not stay, and nothing stands in.",
        "A",
        f"{SERVICE}.loading.commit",
        "for key, unit in self._sources.units.items() if key not in built.too_weak} | built.fresh",
        "for key, unit in self._sources.units.items() if key not in built.faults} | built.fresh",
    ),
    # -- the record ------------------------------------------------------------------------------------------
    "not_synced": Fault(
        "Entries are not synced.",
        "F",
        f"{STORAGE}.syncing",
        "                self._fdatasync(fd)\n",
        "                pass\n",
    ),
    "folder_not_synced": Fault(
        "The names of segments are not synced.",
        "F",
        f"{STORAGE}.syncing",
        "                sync_folder(self._journal.folder)\n",
        "                pass\n",
    ),
    "prev_of_another": Fault(
        "An entry names another one than the one before it.",
        "F",
        f"{STORAGE}.journal",
        "        self.seq, self.hash, self.head = seq, own, (head := ChainHead(seq, own[:WITNESS]))\n",
        "        self.hash = self.hash if kind == 'fault' or seq % 97 == 0 else own\n"
        "        self.seq, self.head = seq, (head := ChainHead(seq, own[:WITNESS]))\n",
    ),
    # -- the state file --------------------------------------------------------------------------------------
    "state_not_stored": Fault(
        "A change of the state is acknowledged, and is not on the disk.",
        "G",
        f"{SERVICE}.config.state_file",
        "            await in_thread(self._write, data)\n",
        "            await in_thread(bytes, data)\n",
    ),
    # -- what mutations of the source have shown -----------------------------------------------------------------
    "switch_stays": Fault(
        "The switch of a hook that a session unregisters stays, and disables the next hook of that name.",
        "A",
        f"{SERVICE}.registry.registries",
        "            session.switches.pop(hook.name, None)\n            self.take_settings(session)\n",
        "            self.take_settings(session)\n",
    ),
    "unread_answer_passes": Fault(
        "A served hook whose client is gone has no opinion.",
        "A",
        f"{SERVICE}.transport.served_calls",
        'pending.end(CallOutcome(cause="crash", message="the client that served it is gone"))',
        'pending.end(CallOutcome(cause="policy", answer=b"null"))',
    ),
    "state_goes_back": Fault(
        "An older state may be stored over a newer one.",
        "G",
        f"{SERVICE}.config.state_file",
        """            async with self._writing:
                if self._covered < number:
                    self._covered = self._requested
                    await self._store(msgspec.json.encode(self.state))
""",
        """            data = msgspec.json.encode(self.state)
            async with self._writing:
                await self._store(data if number % 2 or not hasattr(self, "_before") else self._before)
                self._before = data
""",
    ),
    "state_not_synced": Fault(
        "The state file is renamed before its content is on the disk.",
        "G",
        f"{SERVICE}.config.state_file",
        "            os.fsync(fd)\n",
        "            pass\n",
    ),
    "project_settled_always": Fault(
        "A changed project counts as the one that was trusted.",
        "A",
        f"{SERVICE}.loading.projects",
        "            if folder not in self.active or not self._is_now(self.active[folder], now):\n"
        "                return False",
        "            if folder not in self.active:\n                return False",
    ),
    "switch_not_committed": Fault(
        "A hook that an operator disables is called until the next change.",
        "E",
        f"{SERVICE}.registry.registries",
        "            self.switches[target.name] = enabled\n        self._commit_global()",
        "            self.switches[target.name] = enabled",
    ),
    "handdown_missing": Fault(
        "A session does not see what it has just registered.",
        "A",
        f"{SERVICE}.registry.registries",
        "        self._outdate(session)\n        self._hand_down(session)\n        self.announcer.notify_some()",
        "        self._hand_down(session)\n        self.announcer.notify_some()",
    ),
    "ask_passes": Fault(
        "An ask does not wait for a person.",
        "A",
        f"{SERVICE}.dispatch.dispatcher",
        'if decision.verdict == "ask" and fire.wait and machine is not None:',
        'if decision.verdict == "ask" and fire.wait > 1e9 and machine is not None:',
    ),
    "old_pool_leaks": Fault(
        "The workers of a version that is replaced live on.",
        "D",
        f"{SERVICE}.loading.sources",
        "        if old is not None and old is not unit:\n            self._retire(old)",
        "        if old is not None and old is unit:\n            self._retire(old)",
    ),
    "not_discarded_unsettled": Fault(
        "What was built for a reload that is not taken lives on.",
        "D",
        f"{SERVICE}.loading.reloader",
        "        except BaseException:\n            self._commit.discard(built)\n            raise",
        "        except BaseException:\n            raise",
    ),
    "suspension_wall": Fault(
        "A suspension ends by the wall clock.",
        "G",
        f"{SERVICE}.registry.suspensions",
        "        now = trio.current_time()\n"
        "        return [suspension for suspension, end in self.ends.items() if end > now]",
        "        return [suspension for suspension in self.ends if suspension.until > time.time()]",
    ),
    "witness_not_both": Fault(
        "A crash of a write of the state file makes it doubtful.",
        "G",
        f"{SERVICE}.config.state_file",
        "        self._witness.allow_both(self._digest, digest)\n",
        "",
    ),
    "state_rename_unsynced": Fault(
        "The name of the state file is not synced.",
        "G",
        f"{SERVICE}.config.state_file",
        "        sync_folder(os.path.dirname(self.path))\n",
        "",
    ),
}

# Not found within 4,000 fires of the seeds 1, 2 and 3 yet: the world has to grow for each of these.
UNSEEN: Mapping[str, Fault] = {
    "late_claims": Fault(
        "A hook that begins after its call's deadline passed is blamed for the end of the worker.",
        "B",
        f"{PROCESSES}.worker",
        "        self._following = self._following[: len(self._starts())]"
        "  # a callback that begins before the death is too late\n",
        "",
    ),
    "late_fork_kept": Fault(
        "A worker that arrives after its request was cancelled lives on.",
        "D",
        f"{PROCESSES}.zygote",
        """            if isinstance(request.result, WorkerProcess):
                request.result.kill()
                request.result.close()
""",
        "",
    ),
    "counted_twice": Fault(
        "A step of shared state that is done once for a fire is done again in its later phases.",
        "G",
        f"{SERVICE}.dispatch.shared_state",
        "            fire.counted.add(counted_key)\n",
        "            fire.counted.discard(counted_key)\n",
    ),
    "half_taken": Fault(
        "A file is taken while it is being written.",
        "A",
        f"{SERVICE}.loading.reloader",
        "        return bool(lost) or not set(diagnostics) <= set(self.active.diagnostics)\n",
        "        return False\n",
    ),
    "torn_tail": Fault(
        "A torn end stays in front of the next entries.",
        "F",
        f"{STORAGE}.recovery",
        "            moved = set_aside(place, tail.end)\n",
        "            moved = place.name\n",
    ),
    "number_reused": Fault(
        "After a crash the numbers of entries that may be lost are used again.",
        "F",
        f"{STORAGE}.recovery",
        "        return used if end.marked.is_closed else max(used, end.marked.reserved_through)\n",
        "        return used\n",
    ),
    "gap_kept": Fault(
        "A segment behind a gap that a loss of power left is kept.",
        "F",
        f"{STORAGE}.recovery",
        "        if tail is None or place.first >= gap:\n",
        "        if tail is None:\n",
    ),
    "retention_early": Fault(
        "Retention removes entries from the middle.",
        "F",
        f"{STORAGE}.retention",
        "            break  # never remove from the middle: a chain with a gap proves nothing\n",
        "            continue\n",
    ),
}

"""Runs pods on this machine, each under a supervisor that outlives us.

Below the folder: `pods/<uid>/` with `order.json`, `state.json`, `scratch/` and `volumes/`, and
`logs/<uid>/` with what the containers print. Pods of several accounts have the last two elsewhere
(`Homes`), and then no account can write or read what is here. Everything we know is read from here,
so a restart finds what ran before, by pid and start time. `changes` is a pipe through which
supervisors tell of news; whoever dies without a word is found by looking from time to time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import makeway
from makeway.clocks import SMALL_STEP_S, SteadyClock
from makeway.disk import Disk
from makeway.logs import Fields
from makeway.runner import gpu_locks
from makeway.runner.calls import NotNow, call
from makeway.runner.cgroups import Cgroups, around, leave_account
from makeway.runner.damage import WRONG, Damaged
from makeway.runner.folders import discard, empty
from makeway.runner.gpu_guard import Rule, refuse, refused
from makeway.runner.homes import Homes, OwnHomes
from makeway.runner.host import (
    LOST_CODE,
    LOST_REASON,
    REBOOTED_REASON,
    ContainerState,
    Ended,
    GpuPart,
    PodState,
    Running,
    RunOrder,
    Wish,
)
from makeway.runner.leavings import ACCOUNT, RUNS_KEPT, Limits
from makeway.runner.processes import (
    boot_id,
    in_cgroup,
    is_marked,
    is_stopped,
    kill_cgroup,
    kill_marked,
    kill_program,
    make_spare,
    parent_of,
    read_or_none,
    remove_cgroups,
    send_signal,
    started_ticks,
    write_last,
    write_whole,
)
from makeway.runner.states import document_of, state_of
from makeway.runner.strays import OVERDUE_S, Adopted, LeftGroups, suspects, tell_escaped
from makeway.runner.written_order import Terms, written_order
from makeway.watchdog import Pulse

log = logging.getLogger("makeway.runner")

LOOK_EVERY_S = 1.0
ASLEEP_S = 10.0  # a supervisor may be stopped, before it is woken up
SWEPT_S = 10.0  # from where all processes are told to end to the end of the machine, mostly
READ_BYTES = 64 * 1024
STATE_SPARE_BYTES, STOP_SPARE_BYTES = 16 * 1024, 64  # for the last words on a full disk
SURROUNDINGS = {"PATH": os.defpath}  # of supervisors
DAMAGED_REASON = "DamagedFiles"
_GONE = "The container's supervisor is gone, and with it the knowledge how it ended"
_REBOOTED = "The machine was started anew while the pod ran"
# Read by the supervisors of a later version too; they have the same folder of modules.
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from makeway.runner.supervisor import main; main(*sys.argv[2:])"
)
_SOURCE = str(Path(makeway.__file__).parents[1])

OnChange = Callable[[str], None]


class LocalHost:
    def __init__(
        self,
        folder: Path,
        cgroups: Cgroups | None = None,
        *,
        homes: Homes | None = None,
        limits: Limits | None = None,
        clock: SteadyClock | None = None,
        is_reaper: bool = False,
        keeps_output: Callable[[str], bool] = lambda _: False,
        mounts: bool = False,
    ) -> None:
        """As a reaper we adopt what a killed supervisor leaves; all other children are ours.

        What a pod has printed stays when the pod is removed, if `keeps_output` says so of its uid.
        Who mounts has volumes where containers want them, as far as the kernel allows.
        """
        self._pods, self._logs, self._trash = (folder / n for n in ("pods", "logs", "trash"))
        for below in (self._pods, self._logs, self._trash):
            below.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._cgroups = cgroups or Cgroups()
        self._homes = homes or OwnHomes(self._pods)
        self._owners: dict[str, int] = {}  # of pods that are not over: whom they run as
        self._disk = Disk(folder)
        self._limits = limits or Limits(self._disk.leavings_bytes)
        self.revision = 0  # of the server's objects: the latest of which an order speaks
        self._granted: dict[str, int] = {}  # to pods that are not over: bytes of output
        self._clock = clock or SteadyClock()
        self._shifts: dict[str, float] = {}  # from a supervisor's time to ours, where they differ
        self._pipe = folder / "changes"
        if not self._pipe.exists():
            os.mkfifo(self._pipe, 0o600)
        # Open for writing too, lest the last supervisor that closes it ends it.
        self._news = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        self._boot = boot_id()
        self._states: dict[str, PodState] = {}
        self._supervisors: dict[str, tuple[int, int]] = {}  # of pods not over: pid, start time
        self._children: dict[str, int] = {}  # supervisors that we started and must reap
        # Of pods that are not over: the stamp of the state that we know.
        self._seen: dict[str, tuple[int, int] | None] = {}
        self._groups: dict[str, list[str]] = {}  # cgroups of a pod's containers, then its own
        self._secrets: dict[str, list[str]] = {}  # of pods that are not over: folders of secrets
        self._left_groups = LeftGroups()
        # Who has got the supervisors of the process before us, and gets what they lose.
        self._adopters = {1}
        self._of_yesterday: set[str] = set()  # ran when the machine was started anew
        self._swept: dict[str, float] = {}  # pods that ended with all else; since when we know
        self._asleep: set[str] = set()  # stopped, when we last asked
        self._wake_at = 0.0
        self._patience: dict[str, tuple[float, int]] = {}  # when to send what to who should end
        self._keeps_output, self._mounts = keeps_output, mounts
        self._adopted = Adopted() if is_reaper else None
        self._again: dict[str, None] = {}  # couldn't be looked at, or nobody could be told
        self._on_change: OnChange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.pulse = Pulse("looking at processes")
        for pod in sorted(self._pods.iterdir()):
            if pod.is_dir():
                self._find(pod.name)
            else:
                log.warning(Fields(path=pod, found="not a pod's folder", hint="move it away"))
        self._empty_trash()

    @property
    def unlimited(self) -> str:
        """What of a container's limits can't be held here, and why; empty: all are."""
        return self._cgroups.why

    def spare(self, pid: int) -> None:
        """A child that is nobody's stray: it was started here for something else than a pod."""
        if self._adopted is not None:
            self._adopted.spare(pid)

    def watch(self, on_change: OnChange) -> None:
        """Call with the uid of each pod whose state changes, on the running event loop."""
        self._on_change = on_change
        asyncio.get_running_loop().add_reader(self._news, self.look)
        self._look_again()

    def close(self) -> None:
        """Stop watching; what runs goes on."""
        with contextlib.suppress(OSError):
            self._left_groups.remove_empty()
        if self._timer is not None:
            self._timer.cancel()
            asyncio.get_running_loop().remove_reader(self._news)
        os.close(self._news)

    def states(self) -> Mapping[str, PodState]:
        return self._states

    def supervisors(self) -> dict[str, int]:
        """Of pods that are not over: the process below which all of it runs."""
        return {uid: pid for uid, (pid, _) in self._supervisors.items()}

    def ended(self) -> dict[str, float]:
        """When each pod that is over came to its end."""
        return {uid: _ended_at(state) for uid, state in self._states.items() if state.is_over}

    # Starting

    def start(self, order: RunOrder) -> None:
        if order.uid in self._states:
            return
        if shortage := self._disk.shortage():
            raise OSError(errno.ENOSPC, shortage)
        pod = self._pods / order.uid
        pod.mkdir(exist_ok=True, mode=0o700)
        (self._logs / order.uid).mkdir(exist_ok=True, mode=0o750)
        make_spare(str(pod / "state.json"), STATE_SPARE_BYTES)
        make_spare(str(pod / "stop.json"), STOP_SPARE_BYTES)
        written = self._written(order)
        try:
            self._make_groups(written)
            if owner := written["owner"]:
                (self._logs / order.uid / ACCOUNT).write_text(str(owner["uid"]))
            write_whole(str(pod / "order.json"), json.dumps(written).encode())
            self._note_order(order.uid, written)
            self._spawn(order.uid, order.locks)
        except OSError:
            self._undo(order.uid)
            raise
        self._states[order.uid] = PodState(
            uid=order.uid, node=order.node, devices=dict(order.devices)
        )

    def _undo(self, uid: str) -> None:
        """As if it had never been ordered; perhaps it isn't again. Its cgroups are empty as yet."""
        (self._pods / uid / "order.json").unlink(missing_ok=True)
        groups = self._cgroups.of(uid)
        remove_cgroups(groups)
        for group in groups:
            leave_account(group)
        self._groups.pop(uid, None)
        self._let_go(uid)

    def _written(self, order: RunOrder) -> dict[str, Any]:
        """An order as its supervisor reads it, with the folders that it names made."""
        home, is_guarded = self._homes.settle(order), bool(self._cgroups.guard)
        count = len(order.init) + len(order.containers)
        terms = Terms(
            output_bytes=self._limits.allowance(sum(self._granted.values()), count),
            guards_gpus=is_guarded and bool(refused(order.devices, order.locks, order.parts)),
            may_mount=self._mounts and (home.owner is None or home.owner["uid"] != 0),
        )
        return written_order(order, home, terms) | {
            "changes": str(self._pipe),
            "clock_offset_s": self._clock.offset_s,
            "logs": str(self._logs / order.uid),
        }

    def _note_order(self, uid: str, order: Mapping[str, Any]) -> None:
        programs = (*order["init"], *order["containers"])
        granted = sum(program.get("output_bytes", 0) for program in programs)  # 0: an older order
        self._granted[uid] = RUNS_KEPT * granted
        self.revision = max(self.revision, order.get("revision", 0))
        if owner := order.get("owner"):
            self._owners[uid] = owner["uid"]
        self._secrets[uid] = order.get("secrets", [])  # an older order has no word of them
        inner = [group for program in programs for group in program["cgroups"]]
        self._groups[uid] = [*inner, *order.get("cgroups", ())]  # an older order has none of these

    def _note_shift(self, uid: str, offset_s: float) -> None:
        """Its supervisor goes by the time that Makeway had when it gave the order."""
        shift_s = self._clock.offset_s - offset_s
        if abs(shift_s) > SMALL_STEP_S:
            self._shifts[uid] = shift_s

    def _renewed(self, order: dict[str, Any]) -> bytes:
        """An order from before a restart, perhaps of the machine: cgroups are gone after that."""
        self._make_groups(order)
        return json.dumps(order).encode()

    def _make_groups(self, order: dict[str, Any]) -> None:
        """Cgroups of the containers that are ordered, and the pod's around them."""
        uid, owner = order["uid"], order.get("owner") or {}
        inner: list[str] = []
        for program in (*order["init"], *order["containers"]):
            limits = program["memory_bytes"], program["cpu_milli"]
            made = self._cgroups.make(uid, program["name"], *limits, owner.get("uid"))
            program["cgroups"] = made
            inner += made
        order["cgroups"] = around(inner)
        if order.get("guards_gpus") and (rules := _refused(order)):
            guarded = [g for g in order["cgroups"] if g.startswith(f"{self._cgroups.guard}/")]
            if not any(refuse(Path(group), rules) for group in guarded):
                raise OSError(errno.EPERM, "the kernel keeps no pod from GPUs any more")

    def _spawn(self, uid: str, gpus: Iterable[str] = ()) -> None:
        locks = gpu_locks.take(gpus)
        try:
            for lock in locks:
                lock.set_inheritable(True)
            self._spawn_with(uid, [str(lock.fileno()) for lock in locks])
        finally:
            gpu_locks.release(locks)  # the supervisor has its own

    def _spawn_with(self, uid: str, locks: list[str]) -> None:
        pod = str(self._pods / uid)
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", _BOOT, _SOURCE, *locks, pod],
            SURROUNDINGS,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, f"{pod}/supervisor.err", append, 0o600),
            ],
            setsid=True,
            # Held back until the supervisor is ready for it: none is lost, none kills it.
            setsigmask=[signal.SIGTERM],
            setsigdef=[signal.SIGPIPE, signal.SIGINT],
        )
        self._children[uid] = pid
        try:
            ticks = started_ticks(pid) or 0
        except OSError:
            ticks = 0  # no descriptor for that; it runs all the same, and will say it itself
        self._supervisors[uid] = (pid, ticks)

    # Joining

    def account_of(self, uid: str) -> int | None:
        """Whom a pod runs as that is not over; None: us, or there is no such pod."""
        return self._owners.get(uid)

    async def call(self, uid: str, wish: Wish) -> socket.socket:
        """A line to the supervisor of a pod that runs, which has been told a wish."""
        state = self._states.get(uid)
        if state is None or state.is_over or not self._is_alive(uid):
            raise NotNow("the pod does not run")
        return await call(f"{self._pods}/{uid}", self._supervisors[uid][0], wish)

    # Ending

    def stop(self, uid: str, grace_s: float) -> None:
        if uid not in self._states or self._states[uid].is_over:
            return
        content = json.dumps({"grace_s": grace_s}).encode()
        write_last(str(self._pods / uid / "stop.json"), content)
        # One that didn't write its state yet will look for the file by itself.
        self._read(self._states[uid])
        if self._is_alive(uid):
            send_signal(self._supervisors[uid][0], signal.SIGTERM)
            self._patience[uid] = (time.monotonic() + grace_s + OVERDUE_S, signal.SIGCONT)

    def _insist(self, uid: str) -> None:
        """A supervisor that doesn't end its pod in time may be stopped; woken up in vain, it goes.

        Its containers die with it, and the pod counts as lost.
        """
        due_at, number = self._patience.get(uid, (float("inf"), 0))
        if time.monotonic() < due_at:
            return
        log.warning(Fields(pod_uid=uid, supervisor="overdue", signal=signal.Signals(number).name))
        if self._is_alive(uid):
            send_signal(self._supervisors[uid][0], number)
        self._patience[uid] = (time.monotonic() + OVERDUE_S, signal.SIGKILL)

    def _wake_up(self) -> None:
        """A supervisor that somebody stopped sees no end and no deadline: it has to go on."""
        if time.monotonic() < self._wake_at:
            return
        self._wake_at = time.monotonic() + ASLEEP_S
        asleep = {uid for uid, (pid, _) in self._supervisors.items() if is_stopped(pid)}
        for uid in filter(self._is_alive, asleep & self._asleep):
            log.warning(Fields(pod_uid=uid, supervisor="stopped", signal="SIGCONT"))
            send_signal(self._supervisors[uid][0], signal.SIGCONT)
        self._asleep = asleep

    def remove(self, uid: str) -> None:
        state = self._states.get(uid)
        if state is None:
            return
        assert state.is_over, f"{uid} still runs"
        self._reap(uid)
        self._discard(uid)
        del self._states[uid]
        self._empty_trash()

    def _discard(self, uid: str) -> None:
        for folder in (self._homes.folder, self._logs, self._pods):
            if folder != self._logs or not self._keeps_output(uid):
                discard(folder / uid, self._trash)

    def _empty_trash(self) -> None:
        """A pod may leave many files behind; nobody waits for them to go."""
        # Without a thread to be had they wait for the next who goes.
        with contextlib.suppress(RuntimeError):
            if any(self._trash.iterdir()):
                threading.Thread(target=empty, args=(self._trash,), daemon=True).start()

    # Looking

    def look(self) -> None:
        """Take in what supervisors have told."""
        told: dict[str, None] = {}
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._news, READ_BYTES):
                told |= dict.fromkeys(piece.decode("ascii", "replace").split())
        for uid in told:
            self._try(uid, self._take_in)

    def look_at_all(self) -> None:
        """Take in what happened without a word; two questions to Linux per pod that runs."""
        self.look()
        again, self._again = self._again, {}
        for uid in again:
            self._try(uid, self._take_in_again)
        for uid in list(self._supervisors):
            self._try(uid, self._take_in_if_different)
            self._try(uid, self._insist)
        for uid in self._children.keys() - self._supervisors.keys():
            self._try(uid, self._reap)
        if self._adopted:
            self._adopted.end(self._children.values())
        if self._left_groups:
            self._left_groups.remove_empty()
        self._wake_up()

    def _try(self, uid: str, look: Callable[[str], None]) -> None:
        """Look at one pod; what goes wrong there (no room, no descriptors) concerns no other."""
        try:
            look(uid)
        except Exception as error:
            self._again[uid] = None
            log.warning(Fields(pod_uid=uid, look="failed", error=error), exc_info=True)

    def _look_again(self) -> None:
        self.pulse.turn()
        try:
            self.look_at_all()
        except Exception:
            log.exception(Fields(look="failed"))
        finally:
            self.pulse.rest(LOOK_EVERY_S)
            self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._look_again)

    def _take_in_if_different(self, uid: str) -> None:
        if self._seen.get(uid) != self._stamp(uid) or not self._is_alive(uid):
            self._take_in(uid)

    def _take_in_again(self, uid: str) -> None:
        """What is known already may not have been told."""
        before = self._states.get(uid)
        self._take_in(uid)
        if before is not None and self._states.get(uid) == before:
            self._tell(uid)

    def _find(self, uid: str) -> None:
        """Take up a pod from before a restart."""
        written = read_or_none(str(self._pods / uid / "order.json"))
        has_state = os.path.exists(self._state_path(uid))
        if not written and not has_state:
            # We ended, or the power did, before there was an order: nobody was started for it.
            self._discard(uid)
            return
        self._states[uid] = PodState(uid=uid)
        self._supervisors[uid], self._seen[uid] = (0, 0), None
        try:
            order = json.loads(written or b"")
            devices = {name: tuple(found) for name, found in order["devices"].items()}
            self._states[uid] = PodState(uid=uid, node=order["node"], devices=devices)
            self._note_order(uid, order)
            self._note_shift(uid, order.get("clock_offset_s", self._clock.offset_s))
        except WRONG as error:
            self._fail(uid, Damaged(f"{self._pods}/{uid}/order.json", error))
            return
        if not has_state:
            # Whether its supervisor was started is unknown; a second one goes away.
            self._start_again(uid, order, written or b"")
            return
        self._take_in(uid)
        if uid in self._supervisors and (adopter := parent_of(self._supervisors[uid][0])):
            self._adopters.add(adopter)

    def _start_again(self, uid: str, order: dict[str, Any], written: bytes) -> None:
        try:
            renewed = self._renewed(order)
            if renewed != written:
                write_whole(f"{self._pods}/{uid}/order.json", renewed)
            self._note_order(uid, order)
            self._spawn(uid, order.get("locks", ()))
        except WRONG as error:
            self._fail(uid, Damaged(f"{self._pods}/{uid}/order.json", error))
        except OSError as error:
            log.warning(Fields(pod_uid=uid, start="failed", error=error))
            self._kill(uid)
            del self._states[uid], self._supervisors[uid], self._seen[uid]
            self._undo(uid)

    def _take_in(self, uid: str) -> None:
        try:
            self._take_in_state(uid)
        except Damaged as damage:
            self._fail(uid, damage)

    def _fail(self, uid: str, damage: Damaged) -> None:
        """Nobody can know how this pod stands: it is ended, and has failed; the others go on."""
        log.error(Fields(pod_uid=uid, damage=damage))
        self._kill(uid)
        self._groups[uid] = [*self._groups.get(uid, ()), *self._cgroups.of(uid)]
        known, now = self._states[uid], self._clock()
        failed = replace(
            known,
            began_at=known.began_at or now,
            is_over=True,
            reason=DAMAGED_REASON,
            message=str(damage),
            containers={},
        )
        order = {"node": known.node, "devices": dict(known.devices), "init": [], "containers": []}
        for name, document in (("order", order), ("state", _given_up(failed, self._boot))):
            content = json.dumps(document).encode()
            with contextlib.suppress(OSError):
                write_whole(f"{self._pods}/{uid}/{name}.json", content, durably=True)
        self._states[uid] = failed
        self._supervisors.pop(uid, None)
        self._seen.pop(uid, None)
        self._let_go(uid)
        self._tell(uid)

    def _kill(self, uid: str) -> None:
        """All who may run of a pod about which no more is known."""
        kill_program(str(self._pods / uid))  # its supervisor; the containers die with it
        kill_marked(f"MAKEWAY_POD_UID={uid}", self._owners.get(uid))

    def _take_in_state(self, uid: str) -> None:
        known = self._states.get(uid)
        if known is None or known.is_over:
            return
        found = self._read(known)
        if self._may_go_down(uid):
            return
        if not found.is_over and not self._is_alive(uid):
            found = self._give_up(known)
        self._states[uid] = found
        if found.is_over:
            del self._supervisors[uid], self._seen[uid]
            self._let_go(uid)
            self._reap(uid)
        if found != known:
            self._tell(uid)

    def _may_go_down(self, uid: str) -> bool:
        """Whether a pod ended as all processes were told to: the machine may be next, and us too.

        If it is, that is no end of the pod's own, and nobody is to be told of one.
        """
        return time.monotonic() - self._swept.get(uid, -SWEPT_S) < SWEPT_S

    def _let_go(self, uid: str) -> None:
        """Of what a pod had as long as it ran."""
        self._patience.pop(uid, None)
        self._swept.pop(uid, None)
        self._of_yesterday.discard(uid)
        self._granted.pop(uid, None)
        self._owners.pop(uid, None)
        if secrets := self._secrets.pop(uid, ()):
            for folder in secrets:
                discard(Path(folder), self._trash)
            self._empty_trash()
        self._asleep.discard(uid)
        self._shifts.pop(uid, None)
        self._left_groups.add(self._groups.pop(uid, ()))

    def _tell(self, uid: str) -> None:
        if self._on_change is not None:
            self._on_change(uid)

    def _read(self, known: PodState) -> PodState:
        self._seen[known.uid] = self._stamp(known.uid)
        written = read_or_none(self._state_path(known.uid))
        if written is None:
            return known
        try:
            document = json.loads(written)
            named = document["supervisor"]
            is_of_today = named["boot"] == self._boot
            if not is_of_today and not document["is_over"]:
                self._of_yesterday.add(known.uid)
            supervisor = (named["pid"], named["ticks"]) if is_of_today else (0, 0)
            # What a supervisor of today has written; not what we noted ourselves.
            shift_s = self._shifts.get(known.uid, 0.0) if is_of_today and named["pid"] else 0.0
            state = state_of(known, document, shift_s)
            if document["is_over"] and document.get("is_swept"):  # an older one has no word of it
                if is_of_today:
                    self._swept.setdefault(known.uid, time.monotonic())
                else:
                    state = replace(state, reason=REBOOTED_REASON, message=_REBOOTED)
        except WRONG as error:
            raise Damaged(self._state_path(known.uid), error) from None
        self._supervisors[known.uid] = supervisor
        return state

    def _state_path(self, uid: str) -> str:
        return f"{self._pods}/{uid}/state.json"

    def _stamp(self, uid: str) -> tuple[int, int] | None:
        """Differs when a state was written; None if none was."""
        try:
            found = os.stat(self._state_path(uid))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _is_alive(self, uid: str) -> bool:
        pid, ticks = self._supervisors[uid]
        return started_ticks(pid) == ticks

    def _give_up(self, known: PodState) -> PodState:
        """A supervisor died before its pod was over: end what it left behind, and note that.

        Unless there is one, after all, or it had a last word before it went.
        """
        lock = os.open(self._pods / known.uid / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state = self._read(known)
            return state if state.is_over else self._note_lost(state)
        except BlockingIOError:
            return known
        finally:
            os.close(lock)

    def _note_lost(self, state: PodState) -> PodState:
        suspects = self._end_rest(state.uid)
        now = self._clock()
        try:
            order = json.loads((self._pods / state.uid / "order.json").read_bytes())
        except (*WRONG, FileNotFoundError) as error:
            raise Damaged(f"{self._pods}/{state.uid}/order.json", error) from None
        names = [program["name"] for program in (*order["init"], *order["containers"])]
        containers = {name: _lost(state.containers.get(name), now) for name in names}
        lost = replace(
            state,
            began_at=state.began_at or now,
            is_over=True,
            reason=LOST_REASON,
            message=(self._last_words(state.uid) or _GONE) + suspects,
            containers=containers,
        )
        if state.uid in self._of_yesterday:
            lost = replace(lost, reason=REBOOTED_REASON, message=_REBOOTED)
        content = json.dumps(_given_up(lost, self._boot)).encode()
        try:
            write_last(self._state_path(state.uid), content, durably=True)
            for name in names:
                (self._logs / state.uid / f"{name}.ended").touch()
        except OSError as error:
            # Whoever comes after a restart finds out the same by himself.
            log.warning(Fields(pod_uid=state.uid, noting="failed", error=error))
        return lost

    def _end_rest(self, uid: str) -> str:
        """End what a supervisor left behind when it died; a word about who may have got away."""
        groups, adopted = self._groups.get(uid, ()), self._adopted
        is_ours = adopted is not None and uid in self._children
        mark = f"MAKEWAY_POD_UID={uid}"
        kill_marked(mark, self._owners.get(uid))
        for group in groups:
            left = (pid for pid in in_cgroup(group) if not is_marked(pid, mark))
            tell_escaped(left, is_ended=True)
            kill_cgroup(group)
        if adopted is not None:
            self._reap(uid)
            adopted.end(self._children.values())
        if groups or is_ours:
            return ""
        owner = self._owners.get(uid, os.geteuid())
        return suspects(self._supervisors[uid][1], self._adopters, owner)

    def _last_words(self, uid: str) -> str:
        """Why a supervisor couldn't begin, if it said so."""
        said = read_or_none(str(self._pods / uid / "supervisor.err")) or b""
        lines = said.decode(errors="replace").strip().splitlines()
        return f"The pod's supervisor failed: {lines[-1]}" if lines else ""

    def _reap(self, uid: str) -> None:
        """A supervisor that is over is about to end; one that we started leaves a trace if so."""
        pid = self._children.get(uid)
        if pid is not None and os.waitpid(pid, os.WNOHANG)[0] == pid:
            del self._children[uid]


def _refused(order: Mapping[str, Any]) -> list[Rule]:
    """Found anew each time: after a reboot devices may have other numbers."""
    parts = [GpuPart(**part) for part in order["parts"]]
    return refused(order["devices"], order["locks"], parts)


def _ended_at(state: PodState) -> float:
    ends = (one.now.finished_at for one in state.containers.values() if isinstance(one.now, Ended))
    return max(ends, default=state.began_at or 0.0)


def _lost(state: ContainerState | None, now: float) -> ContainerState:
    """How a container stands of which nobody knows how it ended."""
    if state is not None and isinstance(state.now, Ended):
        return state
    started_at = now
    if state is not None and isinstance(state.now, Running):
        started_at = state.now.started_at
    ended = Ended(
        exit_code=LOST_CODE,
        reason=LOST_REASON,
        message=_GONE,
        started_at=started_at,
        finished_at=now,
    )
    return replace(state or ContainerState(now=ended), now=ended, is_ready=False, is_started=False)


def _given_up(state: PodState, boot: str) -> dict[str, Any]:
    """The state of a pod that was given up, as a supervisor would have written it."""
    return document_of(state) | {"supervisor": {"pid": 0, "ticks": 0, "boot": boot}}

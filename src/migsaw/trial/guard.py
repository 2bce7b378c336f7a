"""A small program between migsaw and a workload: whatever happens to migsaw, the workload's processes are ended.

``guard.py FD WORD…`` runs the words as a process group of its own and waits for it. FD is the read end of a pipe whose
write end only migsaw holds: when migsaw closes it, or dies in any way, the group gets SIGTERM and, after a while,
SIGKILL. Exit code: that of the command, 128 + signal, or 127 where it cannot be started. Standard library only: it is
started for every trial.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

GRACE_SECONDS = 5.0
LAST_SECONDS = 2.0


def main(words: list[str]) -> int:
    life, command = int(words[0]), words[1:]
    try:
        child = subprocess.Popen(command, start_new_session=True)
    except OSError as problem:
        print(f"{command[0]}: {problem.strerror}", file=sys.stderr)
        return 127
    threading.Thread(target=_end_with, args=(life, child.pid), daemon=True).start()
    # not yet reaped, so its id is still the group's and nobody else's
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _signal(child.pid, signal.SIGKILL)
    code = child.wait()
    _wait_for_the_rest(child.pid)
    return code if code >= 0 else 128 - code


def _end_with(life: int, group: int) -> None:
    """Waits until nobody holds the pipe's other end, then ends the group; the main thread exits after it."""
    os.read(life, 1)
    _signal(group, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    _signal(group, signal.SIGKILL)


def _wait_for_the_rest(group: int) -> None:
    """A killed process is gone only a moment later; one whose new parent never reaps it is not waited for long."""
    deadline = time.monotonic() + LAST_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.005)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

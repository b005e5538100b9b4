"""Become a program that ends when its parent does: ``python launch.py PARENT PROGRAM ARGUMENT...``.

A process between parent and program instead of a ``preexec_fn``, which is not safe once threads
run. It imports nothing of ours, so that it starts fast.
"""

import ctypes
import os
import signal
import sys


def die_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent is gone, however it went."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG, kept by execv
        if os.getppid() != parent:  # it died before it was asked
            os._exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - what our own process names

"""The server process under load: the real server, told to announce its address on a descriptor.

``aviso-server serve`` announces its port in the log, which the benchmark keeps at ``warn``. So
this calls the same ``run`` with the same settings and passes the address on by itself. It also
takes the profile, when one is asked for, and tells the number of its tasks at every SIGUSR1.

    python bench/child.py CONFIG OVERRIDES_JSON ADDRESS_FD WORKERS [PROFILE_FILE]
"""

import asyncio
import cProfile
import ctypes
import gc
import json
import os
import signal
import sys
from pathlib import Path

from aviso_server.server.serve import Running, run
from aviso_server.settings import load


def main(config: str, overrides: str, address_fd: str, workers: str, profile: str = "") -> int:
    """Serve until told to stop."""
    settings = load(
        config_file=Path(config),
        environ={},
        cwd=Path.cwd(),
        home=None,
        overrides=json.loads(overrides),
    )

    def announce(running: Running) -> None:
        _tell(int(address_fd), running.port)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _tell_tasks, int(address_fd))

    if int(workers) > 1:
        # Loaded when asked for: the memory of a server does not include it.
        from aviso_server.server.workers import run as run_workers  # noqa: PLC0415

        return run_workers(settings, int(workers), started=announce)
    if not profile:
        return run(settings, started=announce)
    profiler = cProfile.Profile()
    code = profiler.runcall(run, settings, started=announce)
    profiler.dump_stats(profile)
    return code


def _tell_tasks(descriptor: int) -> None:
    gc.collect()
    # Pages that hold nothing go back to the system: what remains is what the server holds.
    ctypes.CDLL(None).malloc_trim(0)
    _tell(descriptor, len(asyncio.all_tasks()))


def _tell(descriptor: int, number: int) -> None:
    os.write(descriptor, b"%d\n" % number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""The server process under load: the real server, told to announce its address on a descriptor.

``aviso-server serve`` announces its port in the log, which the benchmark keeps at ``warn``. So
this calls the same ``run`` with the same settings and passes the address on by itself. It also
takes the profile, when one is asked for.

    python bench/child.py CONFIG OVERRIDES_JSON ADDRESS_FD [PROFILE_FILE]
"""

import cProfile
import json
import os
import sys
from pathlib import Path

from aviso_server.server import Running, run
from aviso_server.settings import load


def main(config: str, overrides: str, address_fd: str, profile: str = "") -> int:
    """Serve until told to stop."""
    settings = load(
        config_file=Path(config),
        environ={},
        cwd=Path.cwd(),
        home=None,
        overrides=json.loads(overrides),
    )

    def announce(running: Running) -> None:
        with os.fdopen(int(address_fd), "w") as address:
            address.write(f"{running.port}\n")

    if not profile:
        return run(settings, started=announce)
    profiler = cProfile.Profile()
    code = profiler.runcall(run, settings, started=announce)
    profiler.dump_stats(profile)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

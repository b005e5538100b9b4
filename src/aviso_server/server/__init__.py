"""The server as a process: built from its settings, started, reloaded, supervised, stopped.

structlog loads rich wherever it is installed, for tracebacks that a server never prints: 7 MiB of
every process. So it is loaded here, where servers begin, while there is no rich to be found.
"""

import sys

if "rich" not in sys.modules:
    sys.modules["rich"] = None  # type: ignore[assignment] # how an import is made to fail
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]

"""``make bench``: puts the repository on the path and hands over to ``bench.cli``."""

import runpy
import sys
from pathlib import Path

# The guard matters: load processes are spawned, and spawning imports this file again.
if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    # The console is measured in the browser of the tests.
    sys.path[:1] = [str(root), str(root / "tests")]
    runpy.run_module("bench.cli", run_name="__main__")

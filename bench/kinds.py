"""What a notification, a filter, a key or a queued chunk takes in memory, and what is counted.

The processes of ``tests/core/test_footprint.py``: each makes many things of one kind.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.figures import Value
from bench.served import HERE
from support.footprints import KINDS


def memory_of_kinds(progress: Callable[[str], None]) -> Iterator[Value]:
    """Bytes of resident memory for one of each kind, and the share of them that is counted."""
    for kind in KINDS:
        progress(f"memory of {kind}")
        ran = subprocess.run(
            [sys.executable, "-m", "support.footprints", kind],
            cwd=HERE.parent / "tests",
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(ran.stdout)
        yield Value(f"one of {kind}", "bytes", (found["taken"] / found["made"],))
        yield Value(f"one of {kind}: counted", "times", (found["counted"] / found["taken"],))

"""What a long run counted, as a table: how much was acknowledged while what went wrong."""

import pytest
from support.fuzz import LONG_FAULTS

collect_ignore = [] if LONG_FAULTS else ["test_far_checkpoint.py"]
"""It downloads half a gigabyte."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print every case with what it counted."""
    if not LONG_FAULTS:
        return
    terminalreporter.section("faults")
    total = 0
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            counted = dict(report.user_properties)
            if not counted:
                continue
            total += int(str(counted.get("acknowledged", 0)))
            case = report.nodeid.rpartition("::")[2]
            words = ", ".join(f"{name} {count}" for name, count in counted.items())
            terminalreporter.write_line(f"{outcome:<8} {case:<60} {words}")
    terminalreporter.write_line(f"{total} acknowledged in all; violations are failures")

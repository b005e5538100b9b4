"""Spark sessions: what they are set up with, and what is said when there is none to be had."""

import subprocess
import sys
from pathlib import Path

import pytest

from aviso_server.pipeline.spark.session import (
    SparkFailed,
    SparkOptions,
    divert_output,
    master_addresses,
    settings,
    spark_session,
)


def test_local_masters_stay_on_loopback(tmp_path: Path) -> None:
    """A cluster elsewhere must be able to reach the driver; one on this machine need not."""
    for master in ("local[*]", "spark://127.0.0.1:7077", "spark://localhost:1,127.0.0.1:2"):
        chosen = settings(SparkOptions(master=master), tmp_path)
        assert chosen["spark.driver.host"] == "127.0.0.1"
    for master in ("spark://head:7077", "yarn", "k8s://https://head:443"):
        assert "spark.driver.host" not in settings(SparkOptions(master=master), tmp_path)


def test_what_the_operator_says_wins(tmp_path: Path) -> None:
    """Options of the JVM are added to, not replaced, unless they say the same."""
    conf = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Xss2m"}
    chosen = settings(SparkOptions(conf=conf, packages=("a:b:1", "c:d:2")), tmp_path)
    assert chosen["spark.ui.enabled"] == "true"
    assert chosen["spark.jars.packages"] == "a:b:1,c:d:2"
    assert chosen["spark.driver.extraJavaOptions"].startswith("-Xss2m -Dlog4j2.config")
    ours = settings(SparkOptions(conf=conf, java=("-Xss1m",)), tmp_path)
    assert ours["spark.driver.extraJavaOptions"].startswith("-Xss1m -Xss2m ")  # the last one wins
    own = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=x -Djava.io.tmpdir=/y"}
    assert settings(SparkOptions(conf=own), tmp_path).items() >= own.items()


def test_masters_may_be_several() -> None:
    """As in a standalone cluster with a standby."""
    assert master_addresses("spark://a:1,b:2") == (("a", 1), ("b", 2))
    assert master_addresses("local[2]") == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            SparkOptions(master="spark://127.0.0.1:1"),
            "master spark://127.0.0.1:1 cannot be reached",
        ),
        (SparkOptions(remote="sc://127.0.0.1:1"), "Connect server 127.0.0.1:1 cannot be reached"),
        (SparkOptions(remote="http://x"), "looks like sc://host:15002"),
        (SparkOptions(remote="sc://x", packages=("a:b:1",)), "packages are given to the"),
    ],
)
def test_what_cannot_be_reached_is_said_at_once(
    options: SparkOptions, message: str, tmp_path: Path
) -> None:
    """Without starting a JVM that would wait for a minute."""
    with pytest.raises(SparkFailed, match=message), spark_session(options, tmp_path):
        pass


def test_output_of_children_goes_to_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both streams, while the block runs and not after."""
    speak = "import sys; print('out'); print('err', file=sys.stderr)"
    with divert_output(tmp_path / "log"):
        subprocess.run([sys.executable, "-c", speak], check=True)
    subprocess.run([sys.executable, "-c", "print('after')"], check=True)
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]
    assert capfd.readouterr() == ("after\n", "")

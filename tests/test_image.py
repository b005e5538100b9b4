"""The image and the manifest, as far as they can be checked without a container engine."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
IMAGE = ROOT / "deploy" / "image"


def _manifest(kind: str) -> dict[str, Any]:
    parts = yaml.safe_load_all((IMAGE / "kubernetes.yaml").read_text())
    (found,) = [part for part in parts if part["kind"] == kind]
    return dict(found)


def _entered(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """What a container does with its arguments."""
    found = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(IMAGE / "entrypoint.sh"), *arguments],
        env={**os.environ, "PATH": found, "SPARK_HOME": str(IMAGE)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_configuration_of_the_manifest_is_valid(tmp_path: Path) -> None:
    """To the command as the image starts it; and executors find the driver where its service is."""
    config = tmp_path / "config.yaml"
    config.write_text(_manifest("ConfigMap")["data"]["config.yaml"])
    done = _entered("check", "--config", str(config))
    assert done.returncode == 0, done.stdout + done.stderr
    conf = yaml.safe_load(config.read_text())["lake"]["spark_conf"]
    job, service = _manifest("StatefulSet"), _manifest("Service")
    name = service["metadata"]["name"]
    assert name == conf["spark.driver.host"] == job["spec"]["serviceName"]
    ports = {str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == {conf["spark.driver.port"], conf["spark.blockManager.port"]}
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == conf["spark.kubernetes.container.image"]


def test_what_the_image_copies_is_there() -> None:
    """But for the wheel, which ``make wheel`` builds; and it does not run as root."""
    text = (IMAGE / "Dockerfile").read_text()
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(?:--\S+ )?(.*) \S+$", text, re.MULTILINE)
        for source in line.split()
    ]
    assert copied == ["requirements.lock", "dist/*.whl", "deploy/image/entrypoint.sh"]
    assert all((ROOT / source).exists() for source in copied if "*" not in source)
    assert re.search(r"^USER [1-9]\d*$", text, re.MULTILINE)

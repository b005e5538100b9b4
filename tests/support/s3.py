"""An object store on loopback that speaks S3, in a process of its own.

It is moto's server. In this process it would not do: delta-rs keeps Python's lock while it opens
a file, and nobody would be there to answer.
"""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from aviso_server.lake.layout import Place

BUCKET = "lake"


@contextmanager
def object_store() -> Iterator[Place]:
    """A lake in an empty bucket."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        try:
            made = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")  # noqa: S310
            with urllib.request.urlopen(made, timeout=30):  # noqa: S310 - our own server
                pass
            yield Place(f"s3://{BUCKET}/deep/lake", options(url))
        finally:
            process.stdin.close()  # which ends it
            process.wait(30)


def options(url: str) -> dict[str, str]:
    """Storage options for a store at a URL."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        # Two writers cannot both write the same version of a table.
        "AWS_CONDITIONAL_PUT": "etag",
    }


def main() -> None:
    """Serve until standard input ends."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - dear, and only for this process

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    sys.stdout.write(f"{server.get_host_and_port()[1]}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()

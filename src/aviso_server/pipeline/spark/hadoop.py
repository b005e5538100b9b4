"""Storage options for Spark's own files: delta-rs's names in Hadoop's terms.

Tables are written through delta-rs, with the options unchanged. Spark's checkpoint, and files that
Spark itself reads, go through Hadoop, which reaches S3 as ``s3a`` with other names for the same
things, and with the package hadoop-aws. Both are said once: in the options, or for what is not
there in environment variables of these names, which delta-rs reads, too.

    AWS_ACCESS_KEY_ID                 fs.s3a.access.key
    AWS_SECRET_ACCESS_KEY             fs.s3a.secret.key
    AWS_SESSION_TOKEN                 fs.s3a.session.token
    AWS_ENDPOINT_URL                  fs.s3a.endpoint
    AWS_REGION, AWS_DEFAULT_REGION    fs.s3a.endpoint.region
    AWS_ALLOW_HTTP=true               fs.s3a.connection.ssl.enabled=false
    AWS_VIRTUAL_HOSTED_STYLE_REQUEST  fs.s3a.path.style.access, the other way round

Whatever else Hadoop needs is given as ``--conf spark.hadoop.NAME=VALUE``.
"""

import os
from collections.abc import Mapping

_NAMES = {
    "aws_access_key_id": "fs.s3a.access.key",
    "aws_secret_access_key": "fs.s3a.secret.key",
    "aws_session_token": "fs.s3a.session.token",
    "aws_endpoint_url": "fs.s3a.endpoint",
    "aws_default_region": "fs.s3a.endpoint.region",
    "aws_region": "fs.s3a.endpoint.region",
}


def hadoop_options(
    options: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options Hadoop needs to reach what delta-rs reaches with these."""
    given = {
        name.lower(): value
        for told in (os.environ if environ is None else environ, options)
        for name, value in told.items()
    }
    made = {ours: given[theirs] for theirs, ours in _NAMES.items() if theirs in given}
    if _true(given.get("aws_allow_http")):
        made["fs.s3a.connection.ssl.enabled"] = "false"
    if "aws_endpoint_url" in given or "aws_virtual_hosted_style_request" in given:
        hosted = _true(given.get("aws_virtual_hosted_style_request"))
        made["fs.s3a.path.style.access"] = str(not hosted).lower()
    return made


def hadoop_url(path: str) -> str:
    """The path as Hadoop spells it."""
    scheme, found, rest = path.partition("://")
    return f"s3a://{rest}" if found and scheme == "s3" else path


def _true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "true", "yes", "y")

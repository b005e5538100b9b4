"""Storage options said twice: to delta-rs as they are, to Hadoop in its own words."""

from aviso_server.pipeline.spark.hadoop import hadoop_options, hadoop_url


def test_s3_options_have_their_counterparts() -> None:
    """Names in any case; an endpoint of one's own means paths instead of host names."""
    given = {
        "AWS_ACCESS_KEY_ID": "k",
        "aws_secret_access_key": "s",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "eu-west-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_S3_ALLOW_UNSAFE_RENAME": "true",
    }
    assert hadoop_options(given, {}) == {
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
    }
    hosted = {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
    assert hadoop_options(hosted, {}) == {"fs.s3a.path.style.access": "false"}
    assert hadoop_options({}, {}) == {}


def test_the_environment_says_what_the_options_do_not() -> None:
    """As delta-rs has it: one set of credentials, wherever it is said."""
    environ = {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/"}
    assert hadoop_options({"aws_access_key_id": "k"}, environ) == {
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
    }


def test_only_s3_is_spelled_differently() -> None:
    """Everything else is the same to both."""
    assert hadoop_url("s3://bucket/lake") == "s3a://bucket/lake"
    for path in ("/var/lake", "hdfs://n/lake", "s3a://b/l", "file:///x"):
        assert hadoop_url(path) == path

r"""What ``--help`` teaches; asserted to run as written by tests/cli.

``\b`` keeps the line breaks of the paragraph that follows.
"""

MAIN = """\
Announce data, follow it live, replay its history.

Start with a configuration file (examples/config.yaml is a commented one), check it, serve it.
"""

MAIN_EPILOG = """\
\b
Examples:
  aviso-server check  --config examples/config.yaml
  aviso-server schema --config examples/config.yaml
  aviso-server serve  --config examples/config.yaml

\b
Without --config the file named by AVISOSERVER_CONFIG_FILE is read; without that, each of
  ./configuration/config.yaml
  /etc/aviso_server/config.yaml
  ~/.aviso_server/config.yaml
that exists, later ones over earlier ones.

\b
Any setting can be overridden from the environment, levels joined by two underscores:
  AVISOSERVER_APPLICATION__PORT=8080
  AVISOSERVER_LOGGING__LEVEL=debug
  AVISOSERVER_AUTH__ADMIN_ROLES='{"ecmwf": ["admin"]}'   (lists and maps are JSON)

docs/configuration.md lists every setting.
"""

SERVE_EPILOG = """\
\b
Examples:
  aviso-server serve --config examples/config.yaml
  aviso-server serve --config examples/config.yaml --host 0.0.0.0 --port 8080
  aviso-server serve --config examples/config.yaml --port 0     (picks a free port, prints it)

\b
--host and --port win over the environment, which wins over the file.
SIGTERM or Ctrl-C ends every stream cleanly and exits with 0.
"""

CHECK_EPILOG = """\
\b
Examples:
  aviso-server check --config examples/config.yaml
  AVISOSERVER_APPLICATION__PORT=8080 aviso-server check --config examples/config.yaml

\b
Exit code 0: the effective settings are printed as YAML, secrets redacted, warnings on stderr.
Exit code 1: every fault is listed on stderr with the path of its setting.
"""

SCHEMA_EPILOG = """\
\b
Examples:
  aviso-server schema --config examples/config.yaml
  aviso-server schema --config examples/config.yaml mars

\b
Topic is the place of a field in the topic, counted after the base.
"""

PIPELINE = """\
The data pipeline: PySpark jobs between the log and the lake. Needs Java 17 or newer.
"""

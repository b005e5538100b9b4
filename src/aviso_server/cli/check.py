"""``aviso-server check``: what is wrong with the configuration, or what it amounts to."""

import typer
import yaml

from aviso_server import settings
from aviso_server.cli.shared import ConfigGroup, list_faults

EPILOG = """\
\b
Examples:
  aviso-server check --config examples/config.yaml
  AVISOSERVER_APPLICATION__PORT=8080 aviso-server check --config examples/config.yaml

\b
Exit code 0: the effective settings are printed as YAML, secrets redacted, warnings on stderr.
Exit code 1: every fault is listed on stderr with the path of its setting.
"""


def check(config: ConfigGroup) -> None:
    """Print the settings as YAML; warnings do not spoil it."""
    loaded = config.load()
    if faults := settings.unreadable(loaded):
        list_faults(settings.SettingsError(faults))
        raise typer.Exit(1)
    for warning in loaded.warnings:
        typer.echo(f"warning: {warning.path}: {warning.message}", err=True)
    dump = yaml.safe_dump(settings.redact_settings(loaded), sort_keys=False, allow_unicode=True)
    typer.echo(dump, nl=False)

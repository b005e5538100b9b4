"""The command line, run in this process."""

from typer.testing import CliRunner, Result

from aviso_server.cli.commands import app


def invoke(*arguments: str, **environ: str) -> Result:
    """Run ``aviso-server`` with these arguments."""
    return CliRunner().invoke(app, arguments, env=environ, prog_name="aviso-server")

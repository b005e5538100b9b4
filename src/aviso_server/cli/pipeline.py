"""The commands of the data pipeline, ``aviso-server pipeline ...``."""

import typer

from aviso_server.cli import archive, audit, ingest, live, maintain, recover, replay, report
from aviso_server.cli import help as texts

app = typer.Typer(
    help=texts.PIPELINE,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)


@app.callback()
def _pipeline() -> None:
    pass


app.command(epilog=archive.EPILOG)(archive.archive)
app.command(epilog=maintain.EPILOG)(maintain.maintain)
app.command(epilog=audit.EPILOG)(audit.audit)
app.command(epilog=recover.EPILOG)(recover.recover)
app.command(epilog=report.EPILOG)(report.report)
app.command(epilog=live.EPILOG)(live.live)
app.command(epilog=ingest.EPILOG)(ingest.ingest)
app.command(epilog=replay.EPILOG)(replay.replay)

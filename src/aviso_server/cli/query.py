"""``aviso-server query``: SQL over the lake, for people."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from aviso_server.cli.jobs import LakeGroup, SparkGroup
from aviso_server.cli.options import argument, flag, option
from aviso_server.cli.shared import ConfigGroup, output, table
from aviso_server.core.errors import AvisoError
from aviso_server.lake.query.engine import EngineOptions, ask, plan
from aviso_server.lake.query.output import Format, Reader, head, lines, write_parquet
from aviso_server.lake.query.views import LakeViews, open_views, quoted
from aviso_server.pipeline.spark.session import SparkOptions, job_session
from aviso_server.process import unfinished
from aviso_server.settings.literals import LiteralError, size_bytes

EPILOG = """\
\b
Examples:
  aviso-server query --lake var/lake
  aviso-server query --lake var/lake "SELECT day, count(*) FROM mars GROUP BY day ORDER BY day"
  aviso-server query --config examples/config.yaml "FROM mars WHERE step = 24" --format csv
  aviso-server query --lake s3://bucket/aviso "FROM storms" --format parquet --output storms.parquet
  aviso-server query --lake var/lake "SELECT count(*) FROM mars" --spark --master spark://head:7077

\b
Without SQL it lists the tables and their columns. Deleted notifications are left out. Nothing can
be written, and no file but those of the lake can be read. docs/query.md has more examples.
"""


@dataclass(frozen=True, kw_only=True)
class QueryGroup:
    """What is asked, and how it is answered."""

    sql: str | None = argument(None, "SQL")
    format: Format = option("table", "table|csv|json|ndjson|parquet", "Form of the answer.")
    output: Path | None = option(None, "FILE", "Write the answer here.", otherwise="stdout")
    limit: int = option(100, "N", "Most rows of a table on the terminal; 0 is all.", min=0)
    explain: bool = flag("Show how the query would be answered, and do not run it.", "--explain")
    spark: bool = flag("Let Spark answer instead.", "--spark")
    memory: str = option("1Gi", "SIZE", "Most memory of the engine; more goes to disk.")
    threads: int = option(
        0, "N", "Threads of the engine.", min=0, otherwise="one per processor", max=256
    )

    def engine(self) -> EngineOptions:
        """What the query may use."""
        try:
            memory = size_bytes(self.memory.removesuffix("B"))
        except LiteralError as error:
            raise typer.BadParameter(str(error), param_hint="--memory") from None
        return EngineOptions(memory, self.threads or os.cpu_count() or 1)


def query(*, asked: QueryGroup, config: ConfigGroup, lake: LakeGroup, spark: SparkGroup) -> None:
    """Answer it, or list what can be asked for."""
    if asked.format == "parquet" and asked.output is None and not asked.explain:
        raise typer.BadParameter("needs --output FILE", param_hint="--format parquet")
    engine = asked.engine()
    settings = config.load() if lake.lake is None else config.load_if_given()
    with _ended_in_words():
        views = open_views(lake.existing(settings))
        if asked.sql is None:
            _list(output(), views)
            return
        if asked.spark:
            _answer_by_spark(views, asked.sql, asked, spark.options("query", settings))
        elif asked.explain:
            typer.echo(plan(views, asked.sql, engine))
        else:
            with ask(views, asked.sql, engine) as reader:
                _write(reader, asked)
    _warn(views, asked.sql)


def _answer_by_spark(views: LakeViews, sql: str, asked: QueryGroup, options: SparkOptions) -> None:
    whole = asked.output is not None or asked.format != "table" or not asked.limit
    with job_session(options) as session:
        # Only here it is certain that PySpark is installed.
        from aviso_server.pipeline.views import ask_spark, explain_spark  # noqa: PLC0415

        if asked.explain:
            typer.echo(explain_spark(session, views, sql))
        else:
            most = None if whole else asked.limit + 1
            _write(ask_spark(session, views, sql, most=most), asked)


def _write(reader: Reader, asked: QueryGroup) -> None:
    if asked.output is not None:
        with unfinished(asked.output) as draft:
            if asked.format == "parquet":
                write_parquet(reader, str(draft))
            else:
                form: Format = "csv" if asked.format == "table" else asked.format
                with draft.open("w", encoding="utf-8", newline="") as file:
                    file.writelines(lines(reader, form))
    elif asked.format == "table":
        _show(output(), *head(reader, asked.limit))
    else:
        for part in lines(reader, asked.format):
            sys.stdout.write(part)


def _warn(views: LakeViews, sql: str) -> None:
    for view in views.used(sql):
        if view.behind:
            typer.echo(
                f"{view.name} lacks the newest {view.behind:,} of the lake; "
                "aviso-server pipeline tables adds them",
                err=True,
            )


def _show(console: Console, names: list[str], rows: list[list[str]], more: bool) -> None:  # noqa: FBT001 - as head has it
    made = table(console, *names)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    console.print(made)
    if more:
        typer.echo(f"the first {len(rows):,} rows; --limit shows more", err=True)


def _list(console: Console, views: LakeViews) -> None:
    for view in views.views.values():
        counted = f"{view.rows:,} rows"
        if view.event_type is not None:
            counted += f", complete through sequence {view.through:,}"
        if view.behind:
            counted += f", {view.behind:,} behind the lake"
        console.print(Text(quoted(view.name), style="bold"), Text(f"({view.about}; {counted})"))
        rows = table(console, "column", "type", "description")
        for column in view.columns:
            rows.add_row(Text(quoted(column.name)), Text(column.type), Text(column.comment))
        console.print(rows)
        console.print()


@contextmanager
def _ended_in_words() -> Iterator[None]:
    """Errors on purpose become a few lines and exit code 1."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (AvisoError, OSError) as error:
        typer.echo(f"aviso-server query: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("aviso-server query: interrupted", err=True)
        raise typer.Exit(130) from None

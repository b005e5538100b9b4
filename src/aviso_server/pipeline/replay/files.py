"""A replay into files: all of them appear at once, or none.

Rules
- Tasks write into a hidden folder beside the output, which is renamed when everything is written.
  An object store cannot rename: files are written in place, and ``_SUCCESS``, or the first commit
  of the Delta table, says that they are complete.
- Files are in sequence order by name, and within.
- An output that exists is never touched; nor are the files of one that may be complete.
"""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow.fs as pa_fs
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from aviso_server.lake.outcome import active
from aviso_server.pipeline.history.fields import with_fields
from aviso_server.pipeline.history.frame import TABLE, answer
from aviso_server.pipeline.history.plan import HistoryPlan
from aviso_server.pipeline.replay.failure import spark_failures
from aviso_server.pipeline.replay.options import (
    Progress,
    ReplayFailed,
    ReplayFiles,
    ReplayOutcome,
    chunks,
)
from aviso_server.pipeline.replay.order import in_pieces
from aviso_server.pipeline.replay.parts import WRITTEN, Folder, Writer, event_writer, parquet_writer

SUCCESS = "_SUCCESS"


def write_files(
    spark: SparkSession,
    plan: HistoryPlan,
    target: ReplayFiles,
    *,
    chunk: int,
    report: Callable[[Progress], None],
) -> ReplayOutcome:
    """Write the answer of a plan; ReplayFailed if that is not possible."""

    def shaped(rows: DataFrame) -> DataFrame:
        return with_fields(rows, plan.schema) if target.typed else rows

    output = _Output(target)
    total = max(0, plan.last - plan.first + 1)
    try:
        output.begin()
        report(Progress(0, total, 0))
        for first, last in chunks(plan.first, plan.last, chunk):
            piece = plan.between(first, last)
            if piece.files is not None or piece.source is not None:
                with spark_failures():
                    output.add(shaped(answer(spark, piece)), first, last)
            report(Progress(last - plan.first + 1, total, output.rows))
        output.finish(shaped(spark.createDataFrame([], TABLE)))
    except (OSError, DeltaError) as error:
        output.discard()
        raise ReplayFailed(f"cannot write to {target.path}: {error}") from error
    except BaseException:
        output.discard()
        raise
    return ReplayOutcome(output.rows, plan.first, plan.last, files=len(output.files))


def check_new(target: ReplayFiles) -> None:
    """ReplayFailed for an output that exists."""
    try:
        _Output(target).check()
    except OSError as error:
        raise ReplayFailed(f"cannot write to {target.path}: {error}") from error


@dataclass(slots=True)
class _Output:
    """Files on their way to being an output."""

    target: ReplayFiles
    run: str = field(default_factory=lambda: uuid4().hex[:12])
    files: list[Row] = field(default_factory=list)
    rows: int = 0
    _begun: bool = False

    @property
    def _final(self) -> Folder:
        return Folder(self.target.path.rstrip("/"), self.target.storage)

    @property
    def _folder(self) -> Folder:
        """Where the tasks write."""
        final = self._final
        if final.remote:
            return final
        return Folder(str(final.local.absolute().with_name(f".{final.local.name}.{self.run}")))

    def begin(self) -> None:
        """Make the folder; ReplayFailed for an output that exists."""
        self.check()
        self._begun = True
        self._folder.open()

    def check(self) -> None:
        """Refuse an output that exists."""
        final = self._final
        if final.remote:
            taken = bool(final.open().get_file_info(pa_fs.FileSelector("", allow_not_found=True)))
        else:
            taken = final.local.exists() and (
                not final.local.is_dir() or any(final.local.iterdir())
            )
        if taken:
            raise ReplayFailed(f"{final.path} exists already: choose another output")

    def add(self, rows: DataFrame, first: int, last: int) -> None:
        """Write the rows of a range."""
        ordered = in_pieces(rows, first, last, size=self.target.rows)
        # One row comes back for each file.
        written = ordered.mapInArrow(self._writer(rows), WRITTEN).collect()
        self.files += written
        self.rows += sum(row.rows for row in written)

    def finish(self, shape: DataFrame) -> None:
        """Make everything visible at once."""
        folder, source = self._folder, self._folder.open()
        known = {row.path for row in self.files}
        for path in self._ours(source):
            if path not in known:  # of an attempt that failed
                source.delete_file(path)
        if not folder.remote:
            self._complete(folder, shape)
            folder.local.rename(self._final.local.absolute())
            return
        try:
            self._complete(folder, shape)
        except (OSError, DeltaError) as error:
            # Only the answer may be lost: then all is written.
            if not self._is_complete(folder):
                self._begun = False  # nor may anything be removed: the request may be on its way
                sign = "a Delta table" if self.target.format == "delta" else SUCCESS
                raise ReplayFailed(
                    f"{folder.path} is complete if {sign} exists; it cannot be checked now: {error}"
                ) from error

    def discard(self) -> None:
        """Remove everything."""
        if not self._begun:
            return
        if not self._folder.remote:
            shutil.rmtree(self._folder.local, ignore_errors=True)
            return
        source = self._folder.open()
        for path in self._ours(source):
            source.delete_file(path)

    def _writer(self, rows: DataFrame) -> Writer:
        folder, target = self._folder, self.target
        if target.format == "ndjson":
            return event_writer(folder, self.run, target.base_url, polygon_text=target.polygon_text)
        return parquet_writer(folder, self.run, to_arrow_schema(rows.schema, timezone="UTC"))

    def _complete(self, folder: Folder, shape: DataFrame) -> None:
        """Mark the output as complete."""
        if self.target.format == "delta":
            self._commit(folder, shape)
        else:
            with folder.open().open_output_stream(SUCCESS):
                pass

    def _is_complete(self, folder: Folder) -> bool:
        """Whether that can be seen."""
        try:
            if self.target.format != "delta":
                return bool(folder.open().get_file_info(SUCCESS).type is pa_fs.FileType.File)
            table = DeltaTable(folder.path, storage_options=dict(folder.storage))
            return set(active(table).to_pylist()) == {row.path for row in self.files}
        except (OSError, DeltaError):
            return False

    def _commit(self, folder: Folder, shape: DataFrame) -> None:
        """Files and table in one commit, its first."""
        now_ms = time.time_ns() // 1_000_000
        create_table_with_add_actions(
            folder.path,
            DeltaSchema.from_arrow(to_arrow_schema(shape.schema, timezone="UTC")),
            [AddAction(row.path, row.size, {}, now_ms, True, row.statistics) for row in self.files],  # noqa: FBT003
            mode="error",
            storage_options=dict(folder.storage),
        )

    def _ours(self, source: pa_fs.FileSystem) -> list[str]:
        present = source.get_file_info(pa_fs.FileSelector("", allow_not_found=True))
        return [item.path for item in present if f"-{self.run}-" in item.base_name]

"""Runs as OpenLineage events, for catalogues that show which data comes from which.

Where the events go is said to OpenLineage's own client, by its environment variables or its file
(docs/pipeline.md#lineage). Nothing a catalogue does or fails to do changes a job.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    OutputDatasetFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from aviso_server import __version__
from aviso_server.pipeline.runs.run import JobRun, Outcome

PRODUCER = f"urn:aviso-server:{__version__}"

STREAMING = ("archive", "live")
"""Jobs that run until they are stopped."""

_ENDS = {
    "complete": RunState.COMPLETE,
    "failed": RunState.FAIL,
    "interrupted": RunState.ABORT,
}


class Lineage:
    """The events of one run."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._client = OpenLineageClient()
        self._namespace = environ.get("OPENLINEAGE_NAMESPACE", "aviso-server")
        self._id = str(generate_new_uuid())

    def begin(self, run: JobRun) -> None:
        """Say that it has begun."""
        self._emit(run, RunState.START, Run(self._id))

    def end(self, run: JobRun, outcome: Outcome, why: str | None) -> None:
        """Say what became of it, what it read and what it wrote; and wait until that is sent."""
        facets: dict[str, RunFacet] = {}
        if why is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(why, "PYTHON")
        self._emit(run, _ENDS[outcome], Run(self._id, facets))
        self._client.close()

    def _emit(self, run: JobRun, state: RunState, of: Run) -> None:
        kind = "STREAMING" if run.job in STREAMING else "BATCH"
        job_type = job_type_job.JobTypeJobFacet(kind, "AVISO", "JOB")
        written = run.rows.get("written")
        statistics: dict[str, OutputDatasetFacet] = {}
        if written is not None:
            statistics["outputStatistics"] = (
                output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(written)
            )
        self._client.emit(
            RunEvent(
                eventTime=datetime.now(UTC).isoformat(),
                run=of,
                job=Job(self._namespace, f"pipeline.{run.job}", {"jobType": job_type}),
                eventType=state,
                inputs=[InputDataset(item.namespace, item.name) for item in run.inputs],
                outputs=[
                    OutputDataset(item.namespace, item.name, outputFacets=statistics)
                    for item in run.outputs
                ],
                producer=PRODUCER,
            )
        )

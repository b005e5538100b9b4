"""The process that Spark forks its Python workers from, with what they need loaded already.

Spark's own imports nothing, so that every worker imports the same modules again: half a second of
CPU and more for each. Spark starts this module instead where ``spark.python.daemon.module`` names
it (session). It is forked from, so that nothing here may start a thread, open a connection or draw
a random number; a module that cannot be imported is left to the worker that needs it, which says
why.
"""

import contextlib
import gc
import importlib
import os

NAME = "aviso_server.pipeline.spark.daemon"

LOADED = (
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyarrow.parquet",
    "aviso_server.lake.reader",
    "aviso_server.pipeline.archive.source",
    "aviso_server.pipeline.datasource",
    "aviso_server.pipeline.source.nats",
    "uvloop",
)

_QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "_RJEM_MALLOC_CONF": "background_thread:false",
}
"""Keeps numpy, Arrow and Delta from starting threads while they are loaded."""


def load() -> None:
    """Import what workers need, and leave the environment as it was."""
    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    for name in LOADED:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    # What is here to stay is not looked at again: workers then share its memory.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    load()
    manager()

"""The data pipeline: PySpark carries notifications from the log into the lake and back out."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aviso_server.pipeline.datasource import register
    from aviso_server.pipeline.history.frame import archived, history
    from aviso_server.pipeline.views import tables
else:
    # Importing a folder binds its name here, once. That is done and undone first, so that
    # ``history`` is the function even if a module of the folder is imported later.
    from aviso_server.pipeline import history

    del history

__all__ = ["archived", "history", "register", "tables"]

_HOMES = {
    "archived": "history.frame",
    "history": "history.frame",
    "register": "datasource",
    "tables": "views",
}


def __getattr__(name: str) -> object:
    """What ``__all__`` names, loaded when it is used: other parts of the package need no Spark."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

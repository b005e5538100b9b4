"""What a person sees when the server is up: what to open and what to type."""

import shlex

from aviso_server import __version__
from aviso_server.cli.example import notification
from aviso_server.core.json import Json, compact
from aviso_server.core.schema import Catalogue


def banner(url: str, catalogue: Catalogue, *, kept: str, archive: str | None = None) -> str:
    """A few lines with addresses and commands that work unchanged."""
    lines = [
        "",
        f"aviso-server {__version__} is ready on {url}",
        "",
        f"  open      {url}/",
        f"            {url}/swagger-ui/",
    ]
    if (schema := next(iter(catalogue.schemas.values()), None)) is not None:
        body = notification(schema)
        asked: Json = {"event_type": schema.event_type, "identifier": _required(body)}
        lines += [
            f"  follow    {_curl(f'{url}/api/v1/watch', asked, '-N ')}",
            f"  announce  {_curl(f'{url}/api/v1/notification', body)}",
        ]
    lines.append(f"  history   {kept}")
    if archive is not None:
        # How to install what is missing takes several lines.
        lines.append("  archive   " + archive.replace("\n", "\n            "))
    lines += ["  stop      Ctrl-C", ""]
    return "\n".join(lines)


def _required(body: dict[str, Json]) -> Json:
    """A filter that the sample matches: its first field, which every example schema requires."""
    identifier = body["identifier"]
    if not isinstance(identifier, dict) or not identifier:
        return {}
    name = next(iter(identifier))
    return {name: identifier[name]}


def _curl(url: str, body: Json, options: str = "") -> str:
    return f"curl {options}{url} -d {shlex.quote(compact(body).decode())}"

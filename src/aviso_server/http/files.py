"""Pages and files: home page, static files, Swagger UI, the OpenAPI document (http.md 12)."""

import mimetypes
from functools import lru_cache
from pathlib import Path

from aiohttp import web

from aviso_server.http.openapi import document
from aviso_server.http.pages import home_page, swagger_asset, swagger_page
from aviso_server.http.services import SERVICES

_HTML = "text/html; charset=utf-8"
_cached_document = lru_cache(maxsize=1)(document)


async def home(request: web.Request) -> web.Response:
    """The home page."""
    services = request.app[SERVICES]
    page = home_page(services.static_dir, services.version, services.homepage_links)
    return web.Response(body=page.encode(), headers={"Content-Type": _HTML})


async def static(request: web.Request) -> web.StreamResponse:
    """A file below the static folder; nothing outside it, and no listings."""
    file = _find(request.app[SERVICES].static_dir, request.match_info["path"])
    if file is None:
        raise web.HTTPNotFound
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return web.FileResponse(file, headers={"Content-Type": kind})


def _find(folder: Path, path: str) -> Path | None:
    """The file of a static path; None when there is none or it is not below the folder."""
    # Empty and dotted steps would be normalised away, and paths are not (http.md 1.1).
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        return None
    try:
        folder = folder.resolve()
        file = (folder / path).resolve()
        # Links inside the folder may lead out of it, so the resolved path decides.
        return file if file.is_relative_to(folder) and file.is_file() else None
    except (OSError, ValueError):
        # No file system has such a name: too long, or with a NUL byte.
        return None


async def swagger(_: web.Request) -> web.Response:
    """The Swagger UI page."""
    return web.Response(body=swagger_page().encode(), headers={"Content-Type": _HTML})


async def swagger_file(request: web.Request) -> web.Response:
    """A script or style of Swagger UI."""
    found = swagger_asset(request.match_info["asset"])
    if found is None:
        raise web.HTTPNotFound
    body, kind = found
    return web.Response(body=body, headers={"Content-Type": kind})


async def openapi(request: web.Request) -> web.Response:
    """The OpenAPI document."""
    body = _cached_document(request.app[SERVICES].version)
    return web.Response(body=body, headers={"Content-Type": "application/json"})

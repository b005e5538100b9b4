"""Pages and files: home page, static files, Swagger UI, the OpenAPI document."""

import asyncio
import mimetypes
from collections.abc import Mapping
from functools import lru_cache
from os import stat_result
from pathlib import Path

from aiohttp import web

from aviso_server.http.gzip import accepts_gzip
from aviso_server.http.openapi import document
from aviso_server.http.pages import PACKAGED_STATIC, home_page, swagger_asset, swagger_page
from aviso_server.http.release import Release, packaged, split_digest
from aviso_server.http.security import COMMON, CONSOLE, SWAGGER
from aviso_server.http.services import SERVICES, Services

_HTML = "text/html; charset=utf-8"
_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": _HTML,
    ".ico": "image/x-icon",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
"""What a web page is made of. The machine's own table comes second: it may know ``.js`` by another
name or not at all, and a browser that must not guess then refuses the script."""
_cached_document = lru_cache(maxsize=1)(document)


async def home(request: web.Request) -> web.Response:
    """The home page."""
    services = request.app[SERVICES]
    page = home_page(services.static_dir, services.version, services.homepage_links)
    if _is_packaged(services):
        page = (await asyncio.to_thread(packaged)).page(page)
    return web.Response(
        body=page.encode(), headers={**_protection(services), "Content-Type": _HTML}
    )


async def static(request: web.Request) -> web.StreamResponse:
    """A file below the static folder; nothing outside it, and no listings."""
    services = request.app[SERVICES]
    path = request.match_info["path"]
    if _is_packaged(services):
        digest, path = split_digest(path)
        if digest is not None:
            # The page of another release gets what we have, which it must not keep.
            release = await asyncio.to_thread(packaged)
            if digest == release.digest:
                return _lasting(request, release, path)
    file = _find(services.static_dir, path)
    if file is None:
        raise web.HTTPNotFound
    return _PlainFile(file, headers={**_protection(services), "Content-Type": _kind(file)})


def _lasting(request: web.Request, release: Release, name: str) -> web.Response:
    """A file of this very release."""
    gzipped = accepts_gzip(request.headers.getall("Accept-Encoding", ()))
    found = release.find(name, gzipped=gzipped)
    if found is None:
        raise web.HTTPNotFound
    body, compressed = found
    headers = {**CONSOLE, "Content-Type": _kind(Path(name)), "Vary": "Accept-Encoding"}
    headers["Cache-Control"] = "public, max-age=31536000, immutable"
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


class _PlainFile(web.FileResponse):
    """The file itself: a compressed one beside it is never sent in its place."""

    def _get_file_path_stat_encoding(
        self,
        accept_encoding: str,  # noqa: ARG002 - whatever is accepted, nothing is compressed
    ) -> tuple[Path | None, stat_result, str | None]:
        return super()._get_file_path_stat_encoding("")


def _protection(services: Services) -> Mapping[str, str]:
    """The headers of the home page and its files."""
    # An operator's own page may have inline scripts, and its policy is the operator's to set.
    return CONSOLE if _is_packaged(services) else COMMON


def _is_packaged(services: Services) -> bool:
    return services.static_dir == PACKAGED_STATIC


def _kind(file: Path) -> str:
    """The content type of a file, by its name."""
    known = _KINDS.get(file.suffix.lower())
    if known is not None:
        return known
    guessed, encoding = mimetypes.guess_type(file.name)
    # A compressed file is sent as the file it is, not as what is inside it.
    return guessed if guessed and not encoding else "application/octet-stream"


def _find(folder: Path, path: str) -> Path | None:
    """The file of a static path; None when there is none or it is not below the folder."""
    # Empty and dotted steps would be normalised away, and paths are not.
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
    return web.Response(body=swagger_page().encode(), headers={**SWAGGER, "Content-Type": _HTML})


async def swagger_file(request: web.Request) -> web.Response:
    """A script or style of Swagger UI."""
    found = swagger_asset(request.match_info["asset"])
    if found is None:
        raise web.HTTPNotFound
    body, kind = found
    return web.Response(body=body, headers={**SWAGGER, "Content-Type": kind})


async def openapi(request: web.Request) -> web.Response:
    """The OpenAPI document."""
    body = _cached_document(request.app[SERVICES].version)
    return web.Response(body=body, headers={**COMMON, "Content-Type": "application/json"})

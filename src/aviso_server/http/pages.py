"""The home page and Swagger UI as bytes; no request, no response, no framework."""

import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

PACKAGED_STATIC = Path(__file__).parent / "static"
"""The static files shipped with the package, for servers that configure none."""

_UNREADABLE = "<h1>Index file not found</h1><p>Please check the static files configuration.</p>"
_PLACEHOLDER = re.compile(r"\{\{([A-Z_]+)\}\}")

_SWAGGER_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Aviso Notification Service API</title>
  <link rel="stylesheet" href="swagger-ui.css">
  <link rel="icon" type="image/png" sizes="32x32" href="favicon-32x32.png">
  <link rel="icon" type="image/png" sizes="16x16" href="favicon-16x16.png">
</head>
<body>
  <div id="swagger-ui"></div>
  <script src="swagger-ui-bundle.js"></script>
  <script src="swagger-ui-standalone-preset.js"></script>
  <script src="swagger-initializer.js"></script>
</body>
</html>
"""
# A separate file, so that the page needs no inline script and a strict CSP can forbid them. The
# validator badge is off: it would send the document's address to a public service.
_SWAGGER_INITIALIZER = """\
SwaggerUIBundle({
  url: "../api-docs/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
  layout: "StandaloneLayout",
});
"""
_JAVASCRIPT = "text/javascript; charset=utf-8"
_VENDORED = {
    "swagger-ui-bundle.js": _JAVASCRIPT,
    "swagger-ui-standalone-preset.js": _JAVASCRIPT,
    "swagger-ui.css": "text/css; charset=utf-8",
    "favicon-16x16.png": "image/png",
    "favicon-32x32.png": "image/png",
}
"""What is served of the swagger-ui-py package, and as what; its editor and demo pages are not."""


def home_page(static_dir: Path, version: str, links: Mapping[str, str]) -> str:
    """The folder's ``index.html`` with the version and the links filled in, HTML-escaped.

    ``links`` has the settings' names: ``client_documentation_url`` fills
    ``{{CLIENT_DOCUMENTATION_URL}}``. An unreadable file gives a page that says so.
    """
    try:
        page = (static_dir / "index.html").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return _UNREADABLE
    values = {name.upper(): link for name, link in links.items()} | {"SERVER_VERSION": version}

    # One pass: a placeholder inside a value stays text.
    def fill(found: re.Match[str]) -> str:
        value = values.get(found[1])
        return found[0] if value is None else escape(value)

    return _PLACEHOLDER.sub(fill, page)


def swagger_page() -> str:
    """The Swagger UI page for ``/swagger-ui/``; every reference is relative."""
    return _SWAGGER_PAGE


def swagger_asset(name: str) -> tuple[bytes, str] | None:
    """A file next to the Swagger UI page and its content type, or None when it is not served."""
    if name == "swagger-initializer.js":
        return _SWAGGER_INITIALIZER.encode(), _JAVASCRIPT
    content_type = _VENDORED.get(name)
    return None if content_type is None else (_vendor_file(name), content_type)


@cache
def _vendor_file(name: str) -> bytes:
    # Only names of the whitelist get here, so the cache holds five files at most.
    return (files("swagger_ui") / "static" / name).read_bytes()

"""Headers that limit what our pages may do in a browser; the one place of each content policy.

Every script, style and picture of a page comes from this server, and nothing on a page is inline.
So the policies start from "nothing" and name what is used. A policy that is too strict shows as an
error on the browser's console, which fails the tests in ``tests/console``.
"""

from collections.abc import Mapping
from types import MappingProxyType

_UNUSED = (
    "accelerometer",
    "camera",
    "display-capture",
    "geolocation",
    "gyroscope",
    "hid",
    "magnetometer",
    "microphone",
    "midi",
    "payment",
    "publickey-credentials-get",
    "screen-wake-lock",
    "serial",
    "usb",
    "xr-spatial-tracking",
)
"""Abilities of a browser that our pages do not need, so that no injected script has them."""

COMMON: Mapping[str, str] = MappingProxyType(
    {
        # Ask whether a file has changed before using a stored one: a new release shows at once.
        "Cache-Control": "no-cache",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": ", ".join(f"{name}=()" for name in _UNUSED),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
)
"""For every page and file, also those of an operator."""


def _policy(**sources: str) -> str:
    """A policy that allows nothing but this."""
    directives = {"default_src": "'none'", **sources}
    directives |= {"base_uri": "'none'", "form_action": "'none'", "frame_ancestors": "'none'"}
    return "; ".join(f"{name.replace('_', '-')} {value}" for name, value in directives.items())


CONSOLE: Mapping[str, str] = MappingProxyType(
    {
        **COMMON,
        "Content-Security-Policy": _policy(
            script_src="'self'",
            style_src="'self'",
            img_src="'self' data: blob:",
            connect_src="'self'",
            font_src="'none'",
            manifest_src="'self'",
            worker_src="'none'",
            # Text from a producer cannot become markup or script, even by our own mistake.
            require_trusted_types_for="'script'",
            trusted_types="'none'",
        ),
    }
)
"""For the packaged home page and its files."""

# The logo in Swagger UI's bar carries a style element, the only thing inline. Another release may
# have another one: the test that opens Swagger UI then shows the new hash.
_SWAGGER_LOGO = "'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='"

SWAGGER: Mapping[str, str] = MappingProxyType(
    {
        **COMMON,
        "Content-Security-Policy": _policy(
            script_src="'self'",
            style_src=f"'self' {_SWAGGER_LOGO}",
            img_src="'self' data:",
            connect_src="'self'",
        ),
    }
)
"""For Swagger UI, which writes markup itself and so cannot have trusted types."""

"""The CloudEvent of a record: one rendered form, whichever tier the record came from.

Members are alphabetical, so ``data`` comes first and everything after it is constant per event type
except the sequence and the time. Rendering is therefore two small JSON encodings between constant
bytes.
"""

from functools import lru_cache
from typing import cast
from urllib.parse import quote

from aviso_server.core.geometry import Area, Cloud
from aviso_server.core.json import Json, compact
from aviso_server.core.moment import rfc3339
from aviso_server.core.notification import Notification, Record

TYPE_PREFIX = "int.ecmwf.aviso."


class Renderer:
    """Renders records as CloudEvent JSON for one server's base URL."""

    def __init__(self, base_url: str, *, polygon_text: bool = False) -> None:
        self._base_url = base_url
        self._polygon_text = polygon_text
        # Bounded, because clients invent event types without a schema.
        self._constants = lru_cache(maxsize=1024)(self._constant_parts)

    def render(self, record: Record) -> bytes:
        """The nine members, compact and in alphabetical order."""
        notification = record.notification
        before_id, before_sequence, before_time, end = self._constants(notification.event_type)
        return b'{"data":{"identifier":%b,"payload":%b%b%d%b%d%b%b%b' % (
            compact(self._identifier(notification)),
            notification.payload,
            before_id,
            record.sequence,
            before_sequence,
            record.sequence,
            before_time,
            rfc3339(record.stored_at_ns).encode(),
            end,
        )

    def _identifier(self, notification: Notification) -> Json:
        match notification.geometry:
            case None:
                return cast("dict[str, Json]", notification.identifier)
            case Area() as area:
                shown = area.text if self._polygon_text else area.points
                return cast("Json", {**notification.identifier, "polygon": shown})
            case Cloud() as cloud:
                return cast("Json", {**notification.identifier, "point_cloud": cloud.points})

    def _constant_parts(self, event_type: str) -> tuple[bytes, bytes, bytes, bytes]:
        schema = f"{self._base_url.rstrip('/')}/api/v1/schema/{quote(event_type, safe='')}"
        identity = compact(f"{event_type}@")[:-1]  # without the closing quote: the sequence follows
        return (
            b'},"datacontenttype":"application/json","dataschema":%b,"id":%b'
            % (compact(schema), identity),
            b'","sequence":',
            b',"source":%b,"specversion":"1.0","time":"' % compact(self._base_url),
            b'","type":%b}' % compact(TYPE_PREFIX + event_type),
        )

"""What an administrator does to stored notifications.

With a lake, what is removed is hidden there first and then taken from the log. The order
matters: the archive job may have read a notification that it has not committed yet, so everything
is hidden whether it is archived or not; and a removal that failed half-way is completed by the
next one, which still finds it in the log.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from aviso_server.backends.backend import Backend
from aviso_server.backends.metered import time_call, unwrap
from aviso_server.core.errors import InvalidRequest, NotFound
from aviso_server.core.schema import Catalogue
from aviso_server.relay.lake import LakeTier
from aviso_server.telemetry.metrics import SILENT, Metrics

DELETED, WIPED = "deleted", "wiped"
"""Why something is hidden in the lake (lake/layout.py)."""

_SEQUENCE = re.compile(r"\+?0*([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class Administration:
    """Deletes and wipes, by the names people use."""

    backend: Backend
    catalogue: Catalogue
    metrics: Metrics = SILENT
    lake: LakeTier | None = None

    async def wipe(self, name: str) -> tuple[str, int]:
        """Remove every notification of one event type; which one, and how many the log had."""
        event_type = await self._resolve(name)
        if event_type is None:
            names = ", ".join(self.catalogue.names)
            known = f". Known event types: {names}" if names else ""
            raise NotFound(f"Stream not found: {name}{known}")
        return event_type, await self._wipe(self.backend, event_type)

    async def wipe_all(self) -> dict[str, int]:
        """Remove everything from our own streams; tries all of them before it fails."""
        return await time_call(self.metrics, "wipe_all", self._wipe_all(unwrap(self.backend)))

    async def _wipe_all(self, backend: Backend) -> dict[str, int]:
        event_types = {*self.catalogue.names, *await self._stored(backend)}
        wiped: dict[str, int] = {}
        failures: list[str] = []
        for event_type in sorted(event_types):
            try:
                wiped[event_type] = await self._wipe(backend, event_type)
            except Exception as error:  # noqa: BLE001 - one broken stream must not spare the others
                failures.append(f"{event_type}: {error}")
        if failures:
            raise WipeFailed("; ".join(failures))
        return wiped

    async def delete(self, notification_id: str) -> tuple[str, int]:
        """Remove one notification by its id; its event type and sequence."""
        name, sequence = parse_id(notification_id)
        event_type = await self._resolve(name)
        if event_type is None or not await self._delete(event_type, sequence):
            raise NotFound("Notification not found")
        return event_type, sequence

    async def _wipe(self, backend: Backend, event_type: str) -> int:
        if self.lake is None:
            return await backend.wipe(event_type)
        before = await backend.bounds(event_type)
        last = max(before.last, (await self.lake.bounds(event_type, fresh=True)).through)
        if last:
            await self.lake.hide(event_type, 1, last, kind=WIPED)
        removed = await backend.wipe(event_type)
        # What came in between was removed as well. Retention may have made them fewer: then the
        # first of them are hidden, never one that is still there.
        late = removed - (before.last - before.first + 1 - before.deleted)
        if late > 0:
            await self.lake.hide(event_type, 1, before.last + late, kind=WIPED)
        return removed

    async def _delete(self, event_type: str, sequence: int) -> bool:
        if self.lake is None:
            return await self.backend.delete(event_type, sequence)
        if sequence > (await self.backend.bounds(event_type)).last:
            return False
        archived = await self._archived(self.lake, event_type, sequence)
        logged = await unwrap(self.backend).read(event_type, sequence, sequence, limit=1)
        if not archived and not logged.entries:
            return False
        await self.lake.hide(event_type, sequence, sequence, kind=DELETED)
        return await self.backend.delete(event_type, sequence) or archived

    async def _archived(self, lake: LakeTier, event_type: str, sequence: int) -> bool:
        """Whether the lake shows it, as of now."""
        if sequence > (await lake.bounds(event_type, fresh=True)).through:
            return False
        return bool((await lake.read(event_type, sequence, sequence, limit=1)).entries)

    async def _resolve(self, name: str) -> str | None:
        return self.catalogue.resolve(name, await self._stored(self.backend))

    async def _stored(self, backend: Backend) -> Sequence[str]:
        """Event types that the log or the lake has."""
        logged = await backend.event_types()
        archived = await self.lake.event_types() if self.lake is not None else ()
        return [*logged, *archived]


class WipeFailed(Exception):
    """At least one stream could not be wiped."""


def parse_id(notification_id: str) -> tuple[str, int]:
    """Stream name and sequence of a notification id, or InvalidRequest."""
    name, at, number = notification_id.strip().rpartition("@")
    if not at or not name or not number:
        raise InvalidRequest("notification_id must be in '<stream>@<sequence>' format")
    found = _SEQUENCE.fullmatch(number)
    if found is None or int(found[1]) > 2**64 - 1:
        raise InvalidRequest("notification_id sequence must be a positive integer")
    if int(found[1]) == 0:
        raise InvalidRequest("notification_id sequence must be greater than zero")
    return name, int(found[1])

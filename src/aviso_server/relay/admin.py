"""What an administrator does to stored notifications (http.md 13, operations.md 7)."""

import re
from dataclasses import dataclass

from aviso_server.backends.backend import Backend
from aviso_server.backends.metered import timed, unmetered
from aviso_server.core.errors import InvalidRequest, NotFound
from aviso_server.core.schema import Catalogue
from aviso_server.telemetry.metrics import SILENT, Metrics

_SEQUENCE = re.compile(r"\+?0*([0-9]{1,20})")


@dataclass(frozen=True, slots=True)
class Administration:
    """Deletes and wipes, by the names people use."""

    backend: Backend
    catalogue: Catalogue
    metrics: Metrics = SILENT

    async def wipe(self, name: str) -> tuple[str, int]:
        """Remove every notification of one event type; which one it was, and how many."""
        event_type = await self._resolve(name)
        if event_type is None:
            raise NotFound(f"Stream not found: {name}{self._known()}")
        return event_type, await self.backend.wipe(event_type)

    async def wipe_all(self) -> dict[str, int]:
        """Remove everything from our own streams; tries all of them before it fails (D24)."""
        return await timed(self.metrics, "wipe_all", self._wipe_all(unmetered(self.backend)))

    async def _wipe_all(self, backend: Backend) -> dict[str, int]:
        event_types = {*self.catalogue.names, *await backend.event_types()}
        wiped: dict[str, int] = {}
        failures: list[str] = []
        for event_type in sorted(event_types):
            try:
                wiped[event_type] = await backend.wipe(event_type)
            except Exception as error:  # noqa: BLE001 - one broken stream must not spare the others
                failures.append(f"{event_type}: {error}")
        if failures:
            raise WipeFailed("; ".join(failures))
        return wiped

    async def delete(self, notification_id: str) -> tuple[str, int]:
        """Remove one notification by its id; its event type and sequence."""
        name, sequence = parse_id(notification_id)
        event_type = await self._resolve(name)
        if event_type is None or not await self.backend.delete(event_type, sequence):
            raise NotFound("Notification not found")
        return event_type, sequence

    async def _resolve(self, name: str) -> str | None:
        return self.catalogue.resolve(name, await self.backend.event_types())

    def _known(self) -> str:
        names = ", ".join(self.catalogue.names)
        return f". Known event types: {names}" if names else ""


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

"""Publishing: a checked request becomes a stored notification."""

from dataclasses import dataclass

from aviso_server.backends.backend import Backend, Receipt
from aviso_server.core.announcement import notification_of
from aviso_server.core.errors import RequestError, StorageFailed
from aviso_server.core.notification import Notification
from aviso_server.core.schema import Schema
from aviso_server.core.wire import NotificationRequest


@dataclass(frozen=True, slots=True)
class Published:
    """A notification and where it was stored."""

    notification: Notification
    receipt: Receipt

    @property
    def id(self) -> str:
        """The identity that consumers will see."""
        return f"{self.notification.event_type}@{self.receipt.sequence}"


async def publish(
    backend: Backend, schema: Schema, request: NotificationRequest, *, key: str
) -> Published:
    """Validate and store; returns only once the backend has it (http.md 4.1 steps 12 to 14)."""
    notification = notification_of(schema, request)
    try:
        receipt = await backend.append(notification, key=key)
    except (RequestError, StorageFailed):
        raise
    except Exception as error:
        raise StorageFailed("Failed to store notification", details=str(error)) from error
    return Published(notification, receipt)

"""The admin endpoints (docs/protocol.md#admin): wipe a stream or all, delete one notification."""

import msgspec
import structlog
from aiohttp import web

from aviso_server.core.errors import BodyTooLarge, InvalidRequest, NotFound, RequestError
from aviso_server.core.operation import Operation
from aviso_server.core.wire import parse_wipe
from aviso_server.http.access import actor
from aviso_server.http.answers import DeleteNotificationResponse, WipeResponse
from aviso_server.http.body import read_body
from aviso_server.http.errors import JSON_TYPE, error_answer
from aviso_server.http.limits import BodyTooSlow
from aviso_server.http.services import REQUEST_ID, SERVICES
from aviso_server.relay.admin import parse_id


async def wipe_stream(request: web.Request) -> web.Response:
    """Remove every notification of one event type."""
    services = request.app[SERVICES]
    journal = _journal(request)
    try:
        name = parse_wipe(await read_body(request, services.max_body_bytes))
    except (BodyTooLarge, BodyTooSlow) as error:
        return error_answer(error, Operation.NOTIFY, request[REQUEST_ID])
    except RequestError as error:
        return _wipe_answer(request, 400, error.message)
    journal = journal.bind(stream_name=name)
    journal.info("Wipe requested", event_name="admin.stream.wipe.requested")
    try:
        stream_key, purged = await services.administration.wipe(name)
    except NotFound as error:
        journal.warning("Stream not found", event_name="admin.stream.wipe.not_found")
        return _wipe_answer(request, 404, error.message)
    except Exception as error:  # noqa: BLE001 - whatever the store says, the administrator is told
        journal.error("Wipe failed", event_name="admin.stream.wipe.failed", error=str(error))
        return _wipe_answer(request, 500, f"Failed to wipe stream: {error}")
    journal.info(
        "Stream wiped",
        event_name="admin.stream.wipe.succeeded",
        stream_key=stream_key,
        messages_purged=purged,
    )
    return _wipe_answer(request, 200, f"Successfully wiped stream: {name}")


async def wipe_all(request: web.Request) -> web.Response:
    """Remove every notification from our own streams."""
    journal = _journal(request)
    journal.warning("Wipe of everything requested", event_name="admin.all.wipe.requested")
    try:
        purged = await request.app[SERVICES].administration.wipe_all()
    except Exception as error:  # noqa: BLE001 - whatever the store says, the administrator is told
        journal.error("Wipe failed", event_name="admin.all.wipe.failed", error=str(error))
        return _wipe_answer(request, 500, f"Failed to wipe all data: {error}")
    journal.warning(
        "Everything wiped",
        event_name="admin.all.wipe.succeeded",
        streams_purged=len(purged),
        messages_purged=sum(purged.values()),
    )
    return _wipe_answer(request, 200, "Successfully wiped all data")


async def delete_notification(request: web.Request) -> web.Response:
    """Remove one notification and leave a hole."""
    notification_id = request.match_info["notification_id"]
    journal = _journal(request).bind(notification_id=notification_id)
    try:
        stream, sequence = parse_id(notification_id)
        journal = journal.bind(stream_key=stream, sequence=sequence)
        stream_key, _ = await request.app[SERVICES].administration.delete(notification_id)
    except InvalidRequest as error:
        journal.warning("Invalid id", event_name="admin.notification.delete.invalid_id")
        return _delete_answer(request, 400, error.message)
    except NotFound as error:
        journal.warning("Not found", event_name="admin.notification.delete.not_found")
        return _delete_answer(request, 404, error.message)
    except Exception as error:  # noqa: BLE001 - whatever the store says, the administrator is told
        journal.error(
            "Delete failed", event_name="admin.notification.delete.failed", error=str(error)
        )
        return _delete_answer(request, 500, f"Failed to delete notification: {error}")
    journal.info(
        "Notification deleted",
        event_name="admin.notification.delete.succeeded",
        stream_key=stream_key,
    )
    return _delete_answer(request, 200, "Notification deleted")


def _journal(request: web.Request) -> structlog.typing.FilteringBoundLogger:
    journal: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind(
        request_id=request[REQUEST_ID], **actor(request)
    )
    return journal


def _wipe_answer(request: web.Request, status: int, message: str) -> web.Response:
    answer = WipeResponse(success=status == 200, message=message, request_id=request[REQUEST_ID])
    return _answer(answer, status)


def _delete_answer(request: web.Request, status: int, message: str) -> web.Response:
    answer = DeleteNotificationResponse(
        success=status == 200,
        message=message,
        notification_id=request.match_info["notification_id"],
        request_id=request[REQUEST_ID],
    )
    return _answer(answer, status)


def _answer(answer: msgspec.Struct, status: int) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(answer), headers=JSON_TYPE)

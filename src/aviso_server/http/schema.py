"""``GET /api/v1/schema`` and ``GET /api/v1/schema/{event_type}`` (docs/protocol.md#schema)."""

from aiohttp import web

from aviso_server.core.json import Json, compact
from aviso_server.http.errors import JSON_TYPE
from aviso_server.http.services import REQUEST_ID, SERVICES


async def list_schemas(request: web.Request) -> web.Response:
    """Every configured event type."""
    catalogue = request.app[SERVICES].catalogue
    body: dict[str, Json] = {
        "event_types": list(catalogue.names),
        "schema": {name: catalogue.schemas[name].view() for name in catalogue.names},
        "status": "success",
        "total_schemas": len(catalogue.names),
    }
    if not catalogue.configured:
        body["message"] = "No notification schema configured"
    request.app[SERVICES].journal.info(
        "Event types listed",
        event_name=f"api.schema.list.{'succeeded' if catalogue.names else 'empty'}",
        request_id=request[REQUEST_ID],
        schema_count=len(catalogue.names),
        event_types=catalogue.names,
    )
    return web.Response(body=compact(body), headers=JSON_TYPE)


async def get_schema(request: web.Request) -> web.Response:
    """One configured event type."""
    catalogue = request.app[SERVICES].catalogue
    event_type = request.match_info["event_type"]
    schema = catalogue.schemas.get(event_type)
    body: dict[str, Json]
    if schema is not None:
        body = {"event_type": event_type, "schema": schema.view(), "status": "success"}
        request.app[SERVICES].journal.info(
            "Event type shown",
            event_name="api.schema.get.succeeded",
            request_id=request[REQUEST_ID],
            event_type=event_type,
            field_count=len(schema.fields),
        )
        return web.Response(body=compact(body), headers=JSON_TYPE)
    body = {"request_id": request[REQUEST_ID], "status": "error"}
    if catalogue.configured:
        body["message"] = f"Event type '{event_type}' not found"
        body["available_types"] = list(catalogue.names)
    else:
        body["message"] = "No notification schema configured"
    return web.Response(status=404, body=compact(body), headers=JSON_TYPE)

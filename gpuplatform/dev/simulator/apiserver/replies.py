"""HTTP responses: objects, tables and metadata as JSON, and documents at fixed paths."""

from collections.abc import Mapping, Sequence

from aiohttp import web

from gpuplatform.dev.simulator.apiserver import discovery, errors
from gpuplatform.dev.simulator.apiserver.lists import Page
from gpuplatform.dev.simulator.apiserver.objects import Manifest, to_bytes
from gpuplatform.dev.simulator.apiserver.requests import Address
from gpuplatform.dev.simulator.apiserver.resources import Registry, Resource
from gpuplatform.dev.simulator.apiserver.store import Entry
from gpuplatform.dev.simulator.apiserver.subresources import scale_of
from gpuplatform.dev.simulator.apiserver.tables import table
from gpuplatform.dev.simulator.apiserver.targets import Options

PROBE_PATHS = frozenset({"/livez", "/readyz", "/healthz"})


def static_reply(registry: Registry, version: int, path: str) -> web.Response:
    """Return the health, version, discovery or OpenAPI document at a path, or 404."""
    if path in PROBE_PATHS:
        return web.Response(text="ok")
    if path == "/version":
        return json_reply(discovery.VERSION)
    if path == "/openapi/v3":
        return json_reply(discovery.openapi_index(registry, version))
    if path.startswith("/openapi/v3/"):
        return json_reply(discovery.openapi(registry, path.removeprefix("/openapi/v3/")))
    found = discovery.root(registry, path)
    return json_reply(found) if found else web.Response(status=404, text="404 page not found\n")


def object_reply(
    request: web.Request,
    address: Address,
    entry: Entry,
    *,
    code: int = 200,
    options: Options | None = None,
) -> web.Response:
    """Return a response with an object in the media type that the client accepts."""
    resource, accept = address.resource, request.headers.get("Accept", "")
    if address.subresource == "scale":
        body = to_bytes(scale_of(resource, entry))
    elif "as=Table" in accept:
        metadata = {"resourceVersion": str(entry.version)}
        body = table(resource, [entry], metadata, request.query.get("includeObject", ""))
    elif "as=PartialObjectMetadata" in accept:
        body = to_bytes(_metadata_only(entry))
    else:
        body = entry.json
    return raw_reply(body, code, options.warnings if options else ())


def check_accept(accept: str) -> None:
    """Check that the client accepts JSON.

    Raises:
        ApiError: 406 if the client does not accept JSON.
    """
    if accept and not any(kind in accept for kind in ("application/json", "*/*", "application/*")):
        raise errors.ApiError(
            406, "NotAcceptable", "406: Not Acceptable: application/json is served"
        )


def _metadata_only(entry: Entry) -> Manifest:
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": entry.object["metadata"]}


def metadata_list(page: Page) -> Manifest:
    """Return a PartialObjectMetadataList with the metadata of the objects of a page."""
    kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    return {
        **kind,
        "metadata": page.metadata(),
        "items": [_metadata_only(e) for e in page.entries],
    }


def success(resource: Resource, entry: Entry) -> Manifest:
    """Return the Status object of a completed deletion."""
    details = {"name": entry.key[3], "group": resource.group, "kind": resource.plural}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v}
        | {"uid": entry.object["metadata"]["uid"]},
    }


def json_reply(body: Mapping[str, object], code: int = 200) -> web.Response:
    """Return a response with `value` encoded as JSON."""
    return raw_reply(to_bytes(body), code)


def raw_reply(body: bytes, code: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """Return a response with a body that is already encoded as JSON."""
    response = web.Response(body=body, status=code, content_type="application/json")
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response

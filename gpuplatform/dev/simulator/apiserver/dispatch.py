"""The HTTP handler, which maps requests to verbs and results to the accepted media type."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import web

from gpuplatform.dev.simulator.apiserver import errors
from gpuplatform.dev.simulator.apiserver.bodies import read_object, read_patch, repeated_fields
from gpuplatform.dev.simulator.apiserver.deletes import DeleteOptions, delete
from gpuplatform.dev.simulator.apiserver.guard import guard
from gpuplatform.dev.simulator.apiserver.kubelets import EXEC, LOG, Kubelets
from gpuplatform.dev.simulator.apiserver.lists import Lister
from gpuplatform.dev.simulator.apiserver.objects import Manifest
from gpuplatform.dev.simulator.apiserver.replies import (
    check_accept,
    json_reply,
    metadata_list,
    object_reply,
    raw_reply,
    static_reply,
    success,
)
from gpuplatform.dev.simulator.apiserver.requests import Address, options_of, parse_path
from gpuplatform.dev.simulator.apiserver.store import Entry
from gpuplatform.dev.simulator.apiserver.subresources import (
    bind,
    finalize,
    patch_scale,
    write_scale,
)
from gpuplatform.dev.simulator.apiserver.tables import table
from gpuplatform.dev.simulator.apiserver.targets import Options
from gpuplatform.dev.simulator.apiserver.watch import Watch, error_event
from gpuplatform.dev.simulator.apiserver.writes import APPLY, JSON, Writer

log = logging.getLogger(__name__)
Reply: TypeAlias = Awaitable[web.StreamResponse]
Verb: TypeAlias = Callable[[web.Request, Address], Reply]

MAX_BODY_BYTES = 3 * 1024 * 1024
_RETURNS_OBJECT = {"Pod", "Service", "ServiceAccount"}
"""Kinds whose DELETE returns the object. For other kinds, DELETE returns a Status."""


class ApiHandler:
    """The handler of all API requests."""

    def __init__(self, writer: Writer, token: str) -> None:
        self._writer = writer
        self._token = token
        self._store = writer.store
        self._registry = writer.registry
        self._lister = Lister(writer.store)
        self._kubelets = Kubelets(writer.store, token)
        self._verbs: dict[str, Verb] = {
            "GET": self._get,
            "POST": self._post,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }

    def application(self) -> web.Application:
        """Return the aiohttp application that serves the API."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[guard(self._token)])
        app.router.add_route("*", "/{path:.*}", self.handle)
        return app

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request. All errors are returned as Status objects."""
        try:
            return await self._respond(request)
        except errors.ApiError as api_error:
            error = api_error
        except web.HTTPRequestEntityTooLarge:
            limit = f"limit is {MAX_BODY_BYTES}"
            error = errors.ApiError(
                413, "RequestEntityTooLarge", f"Request entity too large: {limit}"
            )
        except Exception as exception:  # Return every error as a Status.
            log.exception("%s %s failed", request.method, request.rel_url)
            error = errors.internal_error(exception)
        return json_reply(error.status, error.code)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        address = parse_path(self._registry, path)
        if address is None:
            return static_reply(self._registry, self._store.version, path)
        check_accept(request.headers.get("Accept", ""))
        verb = self._verbs.get(request.method)
        if verb is None:
            raise _method_not_allowed()
        if address.subresource in {LOG, EXEC}:
            return await self._forward(request, address)
        if address.subresource in {"binding", "eviction", "finalize"}:
            return await self._special(request, address)
        return await verb(request, address)

    async def _get(self, request: web.Request, address: Address) -> web.StreamResponse:
        resource, query = address.resource, request.query
        accept = request.headers.get("Accept", "")
        if address.name and query.get("watch") not in {"1", "true"}:
            entry = self._store.get(address.target.key)
            if entry is None:
                raise errors.not_found(resource, address.name)
            return object_reply(request, address, entry)
        if query.get("watch") in {"1", "true"}:
            return await self._watch(request, address)
        page = self._lister.list(resource, address.namespace, query)
        if "as=Table" in accept:
            return raw_reply(
                table(resource, page.entries, page.metadata(), query.get("includeObject", ""))
            )
        if "as=PartialObjectMetadataList" in accept:
            return json_reply(metadata_list(page))
        return raw_reply(page.json(resource))

    async def _forward(self, request: web.Request, address: Address) -> web.StreamResponse:
        is_log = address.subresource == LOG
        if request.method not in ({"GET"} if is_log else {"GET", "POST"}):
            raise _method_not_allowed()
        entry = self._store.get(address.target.key)
        if entry is None:
            raise errors.not_found(address.resource, address.name)
        forward = self._kubelets.log if is_log else self._kubelets.exec
        return await forward(request, entry.object)

    async def _watch(self, request: web.Request, address: Address) -> web.StreamResponse:
        resource, query = address.resource, dict(request.query)
        if address.name:
            query["fieldSelector"] = f"metadata.name={address.name}"
        as_table = "as=Table" in request.headers.get("Accept", "")
        include = query.get("includeObject", "")

        def render(entry: Entry) -> bytes:
            metadata = {"resourceVersion": str(entry.version)}
            return table(resource, [entry], metadata, include) if as_table else entry.json

        watch = Watch(self._store, resource, address.namespace, query, render)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            async for lines in watch.lines():
                await response.write(lines)
        except ConnectionResetError:
            log.debug("A watch ended: the client disconnected")
        except Exception as exception:  # The response has begun: send an event.
            log.exception("A watch of %s failed", resource.plural)
            await response.write(error_event(errors.internal_error(exception)))
        return response

    async def _post(self, request: web.Request, address: Address) -> web.StreamResponse:
        resource = address.resource
        if address.name or (resource.namespaced and not address.namespace):
            raise _method_not_allowed()
        options = _options(request, address)
        body = await _body(request, options)
        entry = self._writer.create(address.target, body, options)
        return object_reply(request, address, entry, code=201, options=options)

    async def _put(self, request: web.Request, address: Address) -> web.StreamResponse:
        _need_name(address)
        options = _options(request, address)
        body = await _body(request, options)
        if address.subresource == "scale":
            entry = write_scale(self._writer, address.target, body, options)
        else:
            entry = self._writer.update(address.target, body, options)
        return object_reply(request, address, entry, options=options)

    async def _patch(self, request: web.Request, address: Address) -> web.StreamResponse:
        _need_name(address)
        kind, patch = read_patch(
            await request.read(),
            request.headers.get("Content-Type", ""),
            is_custom=address.resource.is_custom,
        )
        options = _options(request, address, is_apply=kind == APPLY)
        if kind == APPLY and not isinstance(patch, dict):
            raise errors.bad_request("the body is not an object")
        if address.subresource == "scale":
            return self._patch_scale(request, address, kind, patch)
        existed = self._store.get(address.target.key) is not None
        entry = self._writer.patch(address.target, patch, kind, options)
        code = 200 if existed else 201
        return object_reply(request, address, entry, code=code, options=options)

    def _patch_scale(
        self, request: web.Request, address: Address, kind: str, patch: Manifest
    ) -> web.Response:
        if kind in {JSON, APPLY}:
            raise errors.not_simulated("patches of scale other than merge patches")
        options = _options(request, address)
        entry = patch_scale(self._writer, address.target, patch, options)
        return object_reply(request, address, entry, options=options)

    async def _delete(self, request: web.Request, address: Address) -> web.StreamResponse:
        if address.subresource:
            raise _method_not_allowed()
        raw = await request.read()
        body = read_object(raw, request.headers.get("Content-Type", "")) if raw else {}
        if not isinstance(body, dict):
            raise errors.bad_request("the body is not an object")
        options, resource = DeleteOptions.read(body, dict(request.query)), address.resource
        if not address.name:
            return self._delete_many(request, address, options)
        deleted = delete(self._store, address.target, options)
        if deleted.is_removed and resource.kind not in _RETURNS_OBJECT:
            return json_reply(success(resource, deleted.entry))
        return object_reply(request, address, deleted.entry)

    def _delete_many(
        self, request: web.Request, address: Address, options: DeleteOptions
    ) -> web.Response:
        resource = address.resource
        if resource.namespaced and not address.namespace:
            raise _method_not_allowed()
        page = self._lister.list(resource, address.namespace, request.query)
        for entry in page.entries:
            one = Address(resource, entry.key[2], entry.key[3], "")
            delete(self._store, one.target, options)
        return raw_reply(page.json(resource))

    async def _special(self, request: web.Request, address: Address) -> web.Response:
        body = await _body(request)
        target, kind = address.target, address.subresource.capitalize()
        name = (body.get("metadata") or {}).get("name")
        if name != target.name:
            raise errors.bad_request(f"name in URL does not match name in {kind} object")
        if address.subresource == "finalize" and request.method == "PUT":
            return raw_reply(finalize(self._writer, target, body).json)
        if request.method != "POST":
            raise _method_not_allowed()
        if address.subresource == "binding":
            bind(self._writer, target, str(body.get("target", {}).get("name", "")))
        else:
            delete(self._store, target, DeleteOptions.read(body.get("deleteOptions") or {}, {}))
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "code": 201,
        }
        return json_reply(status, 201)


def _method_not_allowed() -> errors.ApiError:
    return errors.method_not_allowed(
        "the server does not allow this method on the requested resource"
    )


def _options(request: web.Request, address: Address, *, is_apply: bool = False) -> Options:
    agent = request.headers.get("User-Agent", "")
    kind = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(request.method, "PatchOptions")
    return options_of(request.query, agent, address.subresource, kind, is_apply=is_apply)


async def _body(request: web.Request, options: Options | None = None) -> Any:
    raw, kind = await request.read(), request.headers.get("Content-Type", "")
    body = read_object(raw, kind)
    if options and options.validation != "Ignore":
        options.repeated = repeated_fields(raw, kind)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise errors.bad_request("the body is not an object")
    return body


def _need_name(address: Address) -> None:
    if not address.name:
        raise _method_not_allowed()

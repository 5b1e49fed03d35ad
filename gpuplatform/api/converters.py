"""Variables in paths: what cannot be a name is no address, so it is a 404 before any view."""

from django.urls.converters import StringConverter

from gpuplatform.formats import names


class NameConverter(StringConverter):
    """`<name:…>`: a DNS label."""

    regex = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"


class OperationIDConverter(StringConverter):
    """`<operation:…>`: an operationID."""

    regex = names.OPERATION_ID


CONVERTERS = {"name": NameConverter, "operation": OperationIDConverter}

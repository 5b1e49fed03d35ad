"""Path converters. A path with an invalid name matches no route, so it returns 404."""

from django.urls import register_converter
from django.urls.converters import StringConverter

from gpuplatform.formats import names


class NameConverter(StringConverter):
    """`<name:…>`: the name of a Kubernetes resource, which kubectl may have created."""

    regex = r"[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?"


class SpecNameConverter(StringConverter):
    """`<spec:…>`: the name of a GPU spec."""

    regex = r"(?![^/]{64})" + names.SPEC_NAME


class OperationIDConverter(StringConverter):
    """`<operation:…>`: an operationID."""

    regex = names.OPERATION_ID


CONVERTERS = {
    "name": NameConverter,
    "spec": SpecNameConverter,
    "operation": OperationIDConverter,
}
for _name, _converter in CONVERTERS.items():
    register_converter(_converter, _name)

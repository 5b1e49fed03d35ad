"""`manage.py spectacular`: write the OpenAPI document, with small objects on one line."""

import json
from collections.abc import Iterable
from typing import Any, Final

import yaml
from drf_spectacular.management.commands.spectacular import Command as SpectacularCommand
from rest_framework.renderers import BaseRenderer
from typing_extensions import override

_WIDTH: Final = 100
_SMALL: Final = 120
"""Maximum length in JSON of an object or list that contains others and is in flow style."""


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks, and repeated objects without anchors."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)


def _object(dumper: _Dumper, value: dict[str, Any]) -> yaml.MappingNode:
    flow = _is_flow(value, value.values())
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=flow)


def _list(dumper: _Dumper, value: list[Any]) -> yaml.SequenceNode:
    flow = _is_flow(value, value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=flow)


def _is_flow(value: Any, children: Iterable[Any]) -> bool:
    is_flat = not any(isinstance(child, dict | list) for child in children)
    return is_flat or len(json.dumps(value)) <= _SMALL


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _object)
_Dumper.add_representer(list, _list)


class _YamlRenderer(BaseRenderer):
    """Renders small objects and lists, and those that contain only scalars, in flow style.

    The renderer of drf-spectacular writes each scalar on its own line.
    """

    media_type = "application/yaml"
    format = "openapi"

    @override
    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        content = json.loads(json.dumps(data))  # replaces enums and other subclasses of str
        text = yaml.dump(
            content,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=_WIDTH,
        )
        return text.encode()


class Command(SpectacularCommand):
    """The command of drf-spectacular with another renderer of YAML."""

    @override
    def get_renderer(self, format: str) -> Any:
        is_json = format == "openapi-json"
        # The class of drf-spectacular has no types.
        return super().get_renderer(format) if is_json else _YamlRenderer()  # type: ignore[no-untyped-call]

"""Names and labels that an expression in PromQL uses, found without a parser of PromQL."""

import re

_NAME = re.compile(r"gpuplatform_\w+")
_SELECTOR = re.compile(r"(gpuplatform_\w+)\{([^}]*)\}")
_BY = re.compile(r"\bby \(([^)]*)\)")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!=|!~|=)")
_STRING = re.compile(r'"[^"]*"')


def series_of(expression: str) -> set[str]:
    """Return the names of the series."""
    return set(_NAME.findall(expression))


def selected_labels(expression: str) -> list[tuple[str, set[str]]]:
    """Return the labels that each selector restricts, with the name of its series."""
    return [
        (name, set(_LABEL.findall(_STRING.sub("", selector))))
        for name, selector in _SELECTOR.findall(expression)
    ]


def grouped_labels(expression: str) -> set[str]:
    """Return the labels of every `by`, without the `le` of histograms."""
    found = {label.strip() for labels in _BY.findall(expression) for label in labels.split(",")}
    return found - {"le"}

"""Loads the process settings, reports all errors together, and determines the origin of values.

The environment overrides the file, and the file overrides the defaults. In development mode,
missing values are taken from the platform that runs in the data directory.

If no required setting is set, a command uses the platform that `make run` started in the data
directory: it then runs in development mode.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from pydantic import TypeAdapter, ValidationError

from gpuplatform.configfile import CONFIG_VARIABLE, ConfigFile, read_config_file
from gpuplatform.settings.environment import Environment

PREFIX: Final = "GPUPLATFORM_"
NAMES: Final = tuple(name.upper() for name in Environment.model_fields)
OTHERS: Final = frozenset(
    {CONFIG_VARIABLE, "GPUPLATFORM_RUN", "GPUPLATFORM_RUN_BY", "GPUPLATFORM_IMAGE"}
)
"""Other variables with the prefix: of the development runner, of compose and of this module."""

TEST_PREFIX: Final = "GPUPLATFORM_TEST_"
REQUIRED: Final = (
    "GPUPLATFORM_SECRET_KEY",
    "GPUPLATFORM_ALLOWED_HOSTS",
    "DATABASE_URL",
    "REDIS_URL",
)
"""The settings that are required outside development mode."""

MASK: Final = "********"
RUNNING: Final = "running platform"
"""The origin of values of the platform that `make run` started."""

MIN_KEY_LENGTH: Final = 32
MIN_DIFFERENT: Final = 8
"""Minimum number of different characters of a key. 32 random hexadecimal digits have about 14."""
_PLACEHOLDER = re.compile(
    r"[A-Z]+([-_ ][A-Z]+)+|<.*>|\$\{.*|.*(?i:change[-_ ]?me|example|insecure|placeholder).*"
)
"""Keys of documentation: words in capitals, a variable, or with a word of examples."""
_SERVICE_VARIABLE = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_.+)?|PORT)$"
)
_SECRET_PARAMETER = re.compile("pass|secret|token|key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """The effective value of a setting, masked if it is secret, and its origin."""

    name: str
    value: str
    origin: str


def load_environment() -> Environment:
    """Return the settings of this process.

    Raises:
        SystemExit: If a value is invalid or missing. The message contains all errors.
    """
    file = read_config_file(os.environ)
    errors = [*file.errors, *_unknown(file, os.environ)]
    known = {name.lower(): text for name, text in file.values.items() if name in NAMES and text}
    given = {**file.values, **{name.upper(): text for name, text in os.environ.items() if text}}
    settings: Environment | None = None
    try:
        settings = Environment(**known)  # type: ignore[arg-type]  # it parses text
        if _joins_running_platform(settings, given):
            known["gpuplatform_dev"] = given["GPUPLATFORM_DEV"] = "1"
            settings = Environment(**known)  # type: ignore[arg-type]  # as above
    except ValidationError as error:
        errors += [
            f"{'.'.join(map(str, one['loc'])).upper()}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors(include_input=False, include_url=False)
        ]
    errors += _missing(given)
    if errors or settings is None:
        raise SystemExit("The settings are invalid:\n" + "\n".join(f"  {one}" for one in errors))
    return settings


def effective_settings() -> list[EffectiveSetting]:
    """Return the effective settings of this process. Secrets are masked."""
    file = read_config_file(os.environ)
    settings = load_environment()
    upper = {name.upper() for name, text in os.environ.items() if text}
    effective = {
        **{
            name: settings.effective_url(name)
            for name in ("DATABASE_URL", "REDIS_URL", "NATS_URL")
        },
        "GPUPLATFORM_NATS_SEED": settings.effective_nats_seed(),
        "KUBE_MODE": settings.effective_kube_mode(),
        "KUBECONFIG": settings.effective_kubeconfig(),
        "GPUPLATFORM_ALLOWED_HOSTS": ",".join(settings.allowed_hosts),
        "GPUPLATFORM_METRICS_HOST": settings.effective_metrics_host(),
        "GPUPLATFORM_SECRET_KEY": settings.effective_secret_key(),
        "PORT": settings.effective_port(),
    }
    found = []
    for name in NAMES:
        value = getattr(settings, name.lower())
        text = str(effective.get(name, value))
        if settings.running_address(name) == text and text != str(value):
            origin = RUNNING
        elif name in effective and settings.gpuplatform_dev and text != str(value):
            origin = "development mode"
        elif name in upper:
            origin = "environment"
        elif file.values.get(name):
            origin = str(file.path)
        else:
            origin = RUNNING if name == "GPUPLATFORM_DEV" and value else "default"
        found.append(EffectiveSetting(name, masked(name, text), origin))
    return found


def masked(name: str, text: str) -> str:
    """Return the value of a setting with secrets, and passwords in URLs, masked."""
    extra = Environment.model_fields[name.lower()].json_schema_extra
    if isinstance(extra, dict) and extra.get("secret"):
        return MASK if text else ""
    if "://" not in text:
        return text
    parts = urlsplit(text)
    address = parts.netloc.rpartition("@")
    if address[0]:
        user, colon, _password = address[0].partition(":")
        parts = parts._replace(netloc=f"{user}{colon}{MASK if colon else ''}@{address[2]}")
    query = [
        (key, MASK if _SECRET_PARAMETER.search(key) else value)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    return parts._replace(query=urlencode(query, quote_via=quote, safe="*/:")).geturl()


def _unknown(file: ConfigFile, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield an error for each unknown name in the file and in the environment."""
    for name in file.values:
        if name not in NAMES:
            yield f"{name} ({file.path}): unknown setting{_suggestion(name)}"
    for name, text in environment.items():
        if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX):
            continue
        if name not in NAMES and name not in OTHERS and not _is_service_variable(name, text):
            yield f"{name} (environment): unknown setting{_suggestion(name)}"


def _is_service_variable(name: str, text: str) -> bool:
    """Return whether Kubernetes set the variable, which it does for every Service."""
    return bool(_SERVICE_VARIABLE.search(name)) and (
        not name.endswith("_PORT") or "://" in text or "_SERVICE_PORT" in name
    )


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name.upper(), [*NAMES, PREFIX + name.upper()], n=1)
    close = [one for one in close if one in NAMES]
    return f"; did you mean {close[0]}?" if close else ""


def _joins_running_platform(settings: Environment, given: Mapping[str, str]) -> bool:
    """Return whether this is a command without required settings and `make run` is running."""
    is_configured = any(given.get(name) for name in (*REQUIRED, "GPUPLATFORM_DEV"))
    is_command = settings.gpuplatform_role == "command"
    return is_command and not is_configured and settings.addresses_file.exists()


def is_weak_key(key: str) -> bool:
    """Return whether a secret key can be guessed: it is short, repetitive or words in capitals."""
    is_placeholder = _PLACEHOLDER.fullmatch(key) is not None
    return len(key) < MIN_KEY_LENGTH or len(set(key)) < MIN_DIFFERENT or is_placeholder


def _missing(given: Mapping[str, str]) -> list[str]:
    """Return an error for each required setting that is missing outside development mode."""
    try:
        is_dev = TypeAdapter(bool).validate_python(given.get("GPUPLATFORM_DEV") or False)
    except ValidationError:
        return []
    if is_dev:
        return []
    errors = [
        f"{name}: is missing. {Environment.model_fields[name.lower()].description}"
        for name in REQUIRED
        if not given.get(name)
    ]
    if len(errors) == len(REQUIRED) and given.get("GPUPLATFORM_ROLE", "command") == "command":
        errors.append("GPUPLATFORM_DEV: is not set, and no platform of 'make run' was found")
    if (key := given.get("GPUPLATFORM_SECRET_KEY", "")) and is_weak_key(key):
        errors.append(
            f"GPUPLATFORM_SECRET_KEY: is an example or has less than {MIN_KEY_LENGTH} random"
            " characters. Create one with: openssl rand -hex 32"
        )
    if given.get("KUBE_MODE", "").strip().lower() == "simulated":
        errors.append("KUBE_MODE: the simulated cluster is available in development mode only")
    return errors

"""Django settings, derived from the process settings in `environment`.

DEBUG is always off, so that errors look the same in development and in production. The setting of
development mode is `GPUPLATFORM_DEV`.
"""

from importlib.util import find_spec
from typing import Any

import dj_database_url
from csp.constants import NONE, SELF

from gpuplatform.settings.environment import PROJECT_ROOT, secure_origins
from gpuplatform.settings.openapi import SPECTACULAR_SETTINGS as SPECTACULAR_SETTINGS
from gpuplatform.settings.reading import load_environment

ENVIRONMENT = load_environment()

DEBUG = False
GPUPLATFORM_DEV = ENVIRONMENT.gpuplatform_dev
GPUPLATFORM_DATA = ENVIRONMENT.data_dir
GPUPLATFORM_ENVIRONMENT = ENVIRONMENT.gpuplatform_environment
GPUPLATFORM_SYSTEM_NAMESPACE = ENVIRONMENT.gpuplatform_system_namespace
RESERVATION_IMAGE = ENVIRONMENT.gpuplatform_reservation_image
SIDECAR_IMAGE = ENVIRONMENT.gpuplatform_sidecar_image
PULL_SECRETS = ENVIRONMENT.pull_secrets
POOL_NAMESPACES = ENVIRONMENT.pool_namespaces
LEASE_SECONDS = ENVIRONMENT.gpuplatform_lease_seconds
PREEMPTION_NOTICE_SECONDS = ENVIRONMENT.gpuplatform_preemption_notice_seconds
FRESH_SECONDS = ENVIRONMENT.gpuplatform_fresh_seconds
WEB_THREADS = ENVIRONMENT.gpuplatform_web_threads
SYNC_WAIT_SECONDS = ENVIRONMENT.gpuplatform_sync_wait_seconds
KUBE_MODE = ENVIRONMENT.effective_kube_mode()
KUBECONFIG = ENVIRONMENT.effective_kubeconfig()
PORT = ENVIRONMENT.effective_port()
DRAIN_SECONDS = ENVIRONMENT.gpuplatform_drain_seconds
LOG_FORMAT = ENVIRONMENT.gpuplatform_log_format
METRICS_PORT = ENVIRONMENT.gpuplatform_metrics_port
METRICS_HOST = ENVIRONMENT.effective_metrics_host()

SECRET_KEY = ENVIRONMENT.effective_secret_key()
ALLOWED_HOSTS = ENVIRONMENT.allowed_hosts
OIDC = ENVIRONMENT.oidc
RATES = ENVIRONMENT.rates

INSTALLED_APPS = [
    "gpuplatform.apps.PlatformAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_celery_beat",
    "django_htmx",
    "csp",
    "gpuplatform.apps.PlatformConfig",
    "drf_spectacular",  # after PlatformConfig, whose command `spectacular` replaces its command
    "drf_spectacular_sidecar",
    "gpuplatform.tenancy.apps.TenancyConfig",
    "gpuplatform.audit.apps.AuditConfig",
    "gpuplatform.reconciliation.apps.ReconciliationConfig",
    "gpuplatform.samples.apps.SamplesConfig",
    "gpuplatform.schedules.apps.SchedulesConfig",
    "gpuplatform.operations.apps.OperationsConfig",
    "gpuplatform.quotas.apps.QuotasConfig",
    "gpuplatform.usage.apps.UsageConfig",
    "gpuplatform.access.apps.AccessConfig",
    "inventory.apps.InventoryConfig",
    "units.apps.UnitsConfig",
    "serverless.apps.ServerlessConfig",
    "gpuplatform.tenants.apps.TenantsConfig",
]
if GPUPLATFORM_DEV and find_spec("gpuplatform.dev"):  # The image does not contain this package.
    INSTALLED_APPS.append("gpuplatform.dev.apps.DevelopmentConfig")

MIDDLEWARE = [
    "gpuplatform.api.middleware.RequestMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "gpuplatform.adminkit.site.errors.InvalidQueryMiddleware",
    "gpuplatform.tenancy.actor.ActorMiddleware",
    "gpuplatform.audit.middleware.AuditMiddleware",
    "gpuplatform.postgresql.tenant_rows.TenantRowsMiddleware",
]

ROOT_URLCONF = "gpuplatform.urls"
WSGI_APPLICATION = "gpuplatform.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PROJECT_ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "libraries": {"adminkit": "gpuplatform.adminkit.display.text"},
        },
    },
]


def _database() -> dict[str, Any]:
    """Return the default database. Every statement has a time limit.

    Only the web process has a connection pool. Other processes use one persistent connection.
    """
    url = ENVIRONMENT.effective_url("DATABASE_URL")
    database: dict[str, Any] = dict(
        dj_database_url.parse(url or "postgres://app@127.0.0.1:5432/app")
    )
    is_web = ENVIRONMENT.gpuplatform_role == "web"
    statement_seconds = 10 if is_web else 60
    options = database.setdefault("OPTIONS", {})
    options["connect_timeout"] = 3
    options["options"] = (
        f"-c lock_timeout=2000 -c statement_timeout={statement_seconds * 1000}"
        " -c idle_in_transaction_session_timeout=15000"
    )
    # A request does not fail because the server was restarted.
    database["CONN_HEALTH_CHECKS"] = True
    if is_web:
        database["ENGINE"] = "gpuplatform.postgresql"
        # The default of the pool doubles the pause between its attempts up to five minutes.
        options["pool"] = {"min_size": 1, "max_size": 8, "timeout": 5, "reconnect_timeout": 5}
    else:
        database["CONN_MAX_AGE"] = 60
    return database


DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = ENVIRONMENT.effective_url("REDIS_URL")

NATS_URL = ENVIRONMENT.effective_url("NATS_URL")
NATS_SEED = ENVIRONMENT.effective_nats_seed()
NATS_REPLICAS = ENVIRONMENT.gpuplatform_nats_replicas
TRUSTED_PROXIES = ENVIRONMENT.trusted_proxies
AUDIT_RETENTION_DAYS = ENVIRONMENT.gpuplatform_audit_retention_days
WEBHOOK_NETWORKS = ENVIRONMENT.webhook_networks

# The visibility timeout exceeds the time limit of tasks. It is the same in every process, because
# the shortest one applies to all. Sweeps of due rows, not this timeout, prevent lost work.
TASK_SOFT_SECONDS, TASK_HARD_SECONDS = 60, 120
CELERY_BROKER_URL = REDIS_URL or "redis://127.0.0.1:6379/0"
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 300,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
    "socket_keepalive": True,
    # A worker waits for messages; a sender must not wait for a broker that hangs.
    "socket_timeout": 30 if ENVIRONMENT.gpuplatform_role == "worker" else 2,
    "socket_connect_timeout": 1,
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.1,
    "interval_max": 0.1,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = None  # Results are not stored, so beat needs no schedule to delete them.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Django closes connections, as in the web process. By default Celery closes them after each task.
CELERY_DB_REUSE_MAX = 1_000_000_000
CELERY_TASK_SOFT_TIME_LIMIT = TASK_SOFT_SECONDS
CELERY_TASK_TIME_LIMIT = TASK_HARD_SECONDS
CELERY_TASK_DEFAULT_QUEUE = "periodic"
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_CONSUMER = "gpuplatform.processes.worker:ReconnectingConsumer"
CELERY_BEAT_SCHEDULER = "gpuplatform.processes.beat:HeartbeatScheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 5
CELERY_TIMEZONE = "UTC"
DJANGO_CELERY_BEAT_TZ_AWARE = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["gpuplatform.tenancy.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["gpuplatform.tenancy.authentication.CallerPermission"],
    "DEFAULT_THROTTLE_CLASSES": ["gpuplatform.tenancy.throttle.RequestThrottle"],
    "DEFAULT_SCHEMA_CLASS": "gpuplatform.tenancy.openapi.PermissionSchema",
    "EXCEPTION_HANDLER": "gpuplatform.api.exceptions.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = GPUPLATFORM_DATA / "static"
STATICFILES_DIRS = [PROJECT_ROOT / "gpuplatform" / "adminkit" / "static"]
WHITENOISE_USE_FINDERS = GPUPLATFORM_DEV

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
PASSWORD_HASHERS = ["gpuplatform.adminkit.site.passwords.PasswordHasher"]
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

SESSION_COOKIE_AGE = 8 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not GPUPLATFORM_DEV
CSRF_TRUSTED_ORIGINS = [] if GPUPLATFORM_DEV else secure_origins(ALLOWED_HOSTS)
# Browsers use HTTPS only, which a proxy terminates. `RequestMiddleware` sends the header.
HSTS_HEADER = "" if GPUPLATFORM_DEV else "max-age=31536000"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024 + 1

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    },
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"()": "gpuplatform.observability.log_format.PlainFormatter"},
        "json": {"()": "gpuplatform.observability.log_format.JsonFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["stderr"], "level": ENVIRONMENT.gpuplatform_log_level},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "celery": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "django_celery_beat": {"level": "WARNING"},
        "urllib3": {"level": "ERROR"},
    },
}

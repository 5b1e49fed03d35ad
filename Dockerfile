# syntax=docker/dockerfile:1
# One image for every process of the platform; the command says which (see compose.yaml).

FROM python:3.13-slim-bookworm AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/prod.txt /tmp/prod.txt
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes --only-binary :all: -r /tmp/prod.txt

FROM python:3.13-slim-bookworm AS static
ENV PATH=/opt/venv/bin:$PATH
COPY --from=packages /opt/venv /opt/venv
WORKDIR /app
COPY . .
# Nothing of these settings stays: they only let the settings load.
RUN GPUPLATFORM_SECRET_KEY=build GPUPLATFORM_ALLOWED_HOSTS=build GPUPLATFORM_DATA=/app/data \
    DATABASE_URL=postgres://build@127.0.0.1/build REDIS_URL=redis://127.0.0.1 KUBE_MODE=off \
    python manage.py collectstatic --no-input --verbosity 0 \
    && python -m compileall -q gpuplatform inventory units serverless

FROM python:3.13-slim-bookworm
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=gpuplatform.settings \
    GPUPLATFORM_DATA=/app/data \
    MALLOC_ARENA_MAX=2
RUN groupadd --gid 10001 platform \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin platform
COPY --from=packages /opt/venv /opt/venv
COPY --from=static /app /app
WORKDIR /app
# Numeric, so that Kubernetes can tell that it is not root.
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
CMD ["gunicorn", "--config", "python:gpuplatform.webserver", "--bind", "0.0.0.0:8080", \
     "--workers", "2", "--worker-tmp-dir", "/dev/shm"]

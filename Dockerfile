# syntax=docker/dockerfile:1
# Targets: `platform` (the default) is the image of all processes of the platform. The command selects
# the process (see compose.yaml). `sidecar` and `echo` are images for the pods of functions.
# `make image-check` executes the steps without a container engine. Renovate pins the digest of the
# base image (.github/renovate.json).

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
# The settings require these values. The image does not contain them.
RUN GPUPLATFORM_SECRET_KEY="$(python -c 'import secrets; print(secrets.token_hex())')" \
    GPUPLATFORM_ALLOWED_HOSTS=build GPUPLATFORM_DATA=/app/data \
    DATABASE_URL=postgres://build@127.0.0.1/build REDIS_URL=redis://127.0.0.1 KUBE_MODE=off \
    python manage.py collectstatic --no-input --verbosity 0 \
    && python -m compileall -q gpuplatform inventory units serverless

# The sidecar of workers: `docker build --target sidecar`. It contains neither Django nor the Kubernetes
# client.
FROM python:3.13-slim-bookworm AS sidecar-packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/prod.txt /tmp/prod.txt
# Select a subset of the requirements. pip fails if a dependency is missing, because of the hashes.
RUN awk -v names="aiohappyeyeballs aiohttp aiosignal annotated-types attrs cffi frozenlist idna \
        multidict nats-py propcache pycparser pydantic pydantic-core pynacl typing-extensions \
        typing-inspection yarl" \
        'BEGIN {split(names, list); for (i in list) wanted[list[i]] = 1} \
        /^[a-z0-9]/ {split($1, pin, "=="); keep = pin[1] in wanted} keep' \
        /tmp/prod.txt > /tmp/sidecar.txt \
    && python -m venv /opt/venv \
    && /opt/venv/bin/pip install --require-hashes --only-binary :all: -r /tmp/sidecar.txt

FROM python:3.13-slim-bookworm AS sidecar
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MALLOC_ARENA_MAX=2
COPY --from=sidecar-packages /opt/venv /opt/venv
WORKDIR /app
COPY gpuplatform/__init__.py gpuplatform/
COPY gpuplatform/nats gpuplatform/nats
COPY serverless/__init__.py serverless/
COPY serverless/queue serverless/queue
COPY serverless/sidecar serverless/sidecar
USER 10001:10001
EXPOSE 8091
STOPSIGNAL SIGTERM
CMD ["python", "-m", "serverless.sidecar"]

# An example function: `docker build --target echo`.
FROM sidecar AS echo
COPY serverless/framework.py serverless/
COPY serverless/examples serverless/examples
CMD ["python", "-m", "serverless.examples.echo"]

FROM python:3.13-slim-bookworm AS platform
LABEL org.opencontainers.image.title="GPU Platform" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
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
# The user is numeric, so that Kubernetes can verify runAsNonRoot.
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
CMD ["gunicorn", "--config", "python:gpuplatform.processes.webserver", "--bind", "0.0.0.0:8080", \
     "--workers", "2", "--worker-tmp-dir", "/dev/shm"]

# The daily backup: PostgreSQL's own programs, of the version of the database, and Holdkit to verify the restored copy.
FROM python:3.13-slim AS build
WORKDIR /src
COPY tools/requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE THIRD-PARTY-NOTICES.md ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM postgres:18
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY requirements-runtime.lock /locks/
RUN python3 -m venv /opt/holdkit && /opt/holdkit/bin/pip install --no-cache-dir --require-hashes -r /locks/requirements-runtime.lock
COPY --from=build /wheels /wheels
RUN /opt/holdkit/bin/pip install --no-cache-dir --no-deps /wheels/*.whl && ln -s /opt/holdkit/bin/holdkit /usr/local/bin/holdkit
COPY deploy/backup.sh /usr/local/bin/backup.sh
RUN install -d -m 0700 -o postgres -g postgres /backups

USER postgres
VOLUME /backups
ENTRYPOINT ["backup.sh"]

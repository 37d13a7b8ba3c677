# Holdkit's server and command line, installed from hashed locks only. Create a key before it starts: compose.yaml shows how.
FROM python:3.13-slim AS build
WORKDIR /src
COPY tools/requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE THIRD-PARTY-NOTICES.md ./
COPY src ./src
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.13-slim
COPY requirements-runtime.lock /locks/
RUN pip install --no-cache-dir --require-hashes -r /locks/requirements-runtime.lock
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-deps /wheels/*.whl
RUN useradd --uid 1000 --create-home holdkit && install -d -m 0700 -o holdkit -g holdkit /data

USER holdkit
WORKDIR /data
VOLUME /data
# Every setting of the server can be given like these (holdkit serve --help-all). A container's own address is not loopback: clients
# must reach it through a proxy, which provides TLS. Publish its port to loopback only, or to the proxy's network.
ENV HOLDKIT_URL=sqlite:////data/holds.db
ENV HOLDKIT_SERVER_HOST=0.0.0.0
ENV HOLDKIT_SERVER_BEHIND_PROXY=true
EXPOSE 8420
# It reads the same variables as the server, so it follows the port, the socket and TLS.
HEALTHCHECK --interval=10s --timeout=3s CMD holdkit ready
ENTRYPOINT ["holdkit"]
CMD ["serve"]

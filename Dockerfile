# Holdkit's server and command line. Keys are made before it listens: compose.yaml says how.
FROM python:3.13-slim

RUN useradd --uid 1000 --create-home holdkit && install -d -m 0700 -o holdkit -g holdkit /data
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[cli,server,postgres]'

USER holdkit
WORKDIR /data
VOLUME /data
ENV HOLDKIT_URL=sqlite:////data/holds.db
EXPOSE 8420
HEALTHCHECK --interval=10s --timeout=3s CMD \
    python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:8420/readyz', timeout=2)"
ENTRYPOINT ["holdkit"]
# A container's own address is not loopback; what speaks TLS stands in front of it.
CMD ["serve", "--host", "0.0.0.0", "--behind-proxy"]

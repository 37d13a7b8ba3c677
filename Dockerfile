# Holdkit's server and command line. Create a key before it starts: compose.yaml shows how.
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
# A container's own address is not loopback; a proxy in front of it terminates TLS.
CMD ["serve", "--host", "0.0.0.0", "--behind-proxy"]

"""A WSGI server that serves a request, and forks two workers afterwards: `python -m … module:factory fd`. Ends with SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

from werkzeug.serving import make_server


def main() -> None:
    module, factory = sys.argv[1].split(":")
    app = getattr(import_module(module), factory)()
    app.test_client().get("/lamps")  # the parent opens a kernel of its own
    server = make_server("127.0.0.1", 0, app, threaded=True, fd=int(sys.argv[2]))
    workers = []
    for _ in range(2):
        worker = os.fork()
        if not worker:
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
            server.serve_forever()
        workers.append(worker)

    def stop(*_: object) -> None:
        for worker in workers:
            os.kill(worker, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    for worker in workers:
        os.waitpid(worker, 0)


if __name__ == "__main__":
    main()

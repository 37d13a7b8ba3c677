"""OpenTelemetry for kernels, clients and servers: spans around calls inside recorded spans, and observable instruments.

``hk = instrument(holdkit.connect(url))`` is that kernel, traced. `measure` reports the counters of a kernel. The trace context of a
recorded call goes into the journal, so that what happens to the hold hours later is linked to the request that held. Needs
``pip install 'holdkit[opentelemetry]'``.
"""

from __future__ import annotations

from ...errors import MissingExtra

try:
    import opentelemetry.trace
except ModuleNotFoundError as missing:
    raise MissingExtra("opentelemetry", missing) from missing

from .instruments import measure
from .spans import entry_span, entry_span_async, instrument, instrument_client

del opentelemetry

__all__ = ["entry_span", "entry_span_async", "instrument", "instrument_client", "measure"]

"""An MCP server: an assistant reserves within limits that it cannot exceed. `holdkit mcp` runs it over stdio.

`policy` says what the assistant may do, `session` does it and keeps the tokens, `tools` describes it to the model. Needs
``pip install 'holdkit[cli,mcp]'``.
"""

from __future__ import annotations

from ...errors import MissingExtra

try:
    import mcp.server
except ModuleNotFoundError as missing:
    raise MissingExtra("mcp", missing) from missing

from .policy import Policy
from .session import Session
from .tools import mcp_server

del mcp

__all__ = ["Policy", "Session", "mcp_server"]

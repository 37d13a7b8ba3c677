"""Start the gateway: `python -m examples.llm_gateway`."""

from __future__ import annotations

from examples.web import serve

from .gateway import application

if __name__ == "__main__":
    serve("The LLM gateway", application, 8003)

"""An LLM gateway with budgets for team, project and key: `python -m examples.llm_gateway`."""

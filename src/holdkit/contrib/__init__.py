"""Holdkit in other people's frameworks and queues. Each module needs its framework, an extra of the same name, and nothing else."""

"""Engines: they store, the core decides. An engine applies a batch atomically, durably, in order, and answers reads."""

"""The shop: orders for shows."""

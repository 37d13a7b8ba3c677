"""Holdkit, the reservation kernel for Python."""

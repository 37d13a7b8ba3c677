"""Measures Holdkit and compares it with what a good engineer writes by hand."""

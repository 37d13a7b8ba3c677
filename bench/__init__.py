"""Measures Holdkit beside what a good engineer writes by hand."""

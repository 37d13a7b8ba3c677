"""The rules, one ladder per command: the first rung that applies wins, and the order is part of the contract.

A ladder reads the view, and only when every rung is passed does it `record` entries; a refused command leaves no trace.
"""

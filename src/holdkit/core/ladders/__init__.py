"""The rules, one ladder per command: the first rung that applies is the answer, and the order is part of the contract.

A ladder reads the view, and `record`s entries only after every rung is passed; a refused command changes nothing.
"""

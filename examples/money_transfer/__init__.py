"""Money that moves between two ledgers, whatever crashes: `python -m examples.money_transfer`."""

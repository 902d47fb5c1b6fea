"""What is shown of runs: their table, ledger, workers, bytes, curves and steps. sections.py puts them in order."""

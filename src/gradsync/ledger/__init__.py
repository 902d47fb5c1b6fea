"""Arithmetic on the rows of a run. Standard library only."""

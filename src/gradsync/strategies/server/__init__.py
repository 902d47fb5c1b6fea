"""Strategies with parameter servers."""

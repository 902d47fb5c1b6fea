"""Gradients packed into one message, and placeholders for those in flight."""

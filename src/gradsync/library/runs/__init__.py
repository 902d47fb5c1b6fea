"""Runs and studies from settings, for the command line and for Python: what is asked is checked, made and shown."""

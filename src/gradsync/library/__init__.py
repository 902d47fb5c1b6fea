"""gradsync from Python: a strategy attached to the user's own loop, and its record; runs and studies as calls."""

"""gradsync in the user's own training script: a strategy attached to their loop, and the record of it."""

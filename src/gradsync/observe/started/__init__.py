"""What the commands do around a watched script: they start it, and make a run of what its processes have written."""

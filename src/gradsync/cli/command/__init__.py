"""What each command does: one file per command, imported when it is asked for."""

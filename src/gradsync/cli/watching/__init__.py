"""The commands about scripts that are not ours."""

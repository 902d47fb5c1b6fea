"""``gradsync watch``: the record of a script that is not ours, through torch's own hooks. The script is unchanged."""

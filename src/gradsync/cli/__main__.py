"""``python -m gradsync.cli``: the same as ``gradsync``."""

from gradsync.cli.main import main

main()

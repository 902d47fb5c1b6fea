"""One process of a run: ``python -m gradsync.rank worker FOLDER...`` trains, ``prober`` times collectives."""

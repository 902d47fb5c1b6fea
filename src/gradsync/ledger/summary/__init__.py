"""From the rows of all ranks to the summary of a run: arithmetic only."""

from gradsync.ledger.summary.again import differs_later, figures_of, summarized_again
from gradsync.ledger.summary.whole import cluster, summarize

__all__ = ["cluster", "differs_later", "figures_of", "summarize", "summarized_again"]

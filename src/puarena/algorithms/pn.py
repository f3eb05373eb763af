"""The reference baselines of every table: full supervision, and unlabeled as negative."""

from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch
from puarena.algorithms._losses import logistic
from puarena.algorithms.pusb import MarginalQuantile


class PNOracle(Algorithm):
    """Supervised learning: ``prior mean_+ l+ + (1-prior) mean_- l-`` over P and U.

    It receives the true labels of U.
    """

    name, title = "pn-oracle", "PN (oracle)"
    paper = "supervised upper baseline: trained with true labels, not a PU method"
    supervised = baseline = True
    differs = "Not part of the published code."

    def supervised_risk(self, f_p: Tensor, f_u: Tensor, label_u: Tensor) -> Tensor:
        """Return the class-prior-weighted risk; ``label_u`` is 1 for a positive member of U."""
        positive = logistic(f_p, +1).sum(-1) + (label_u * logistic(f_u, +1)).sum(-1)
        negative = ((1 - label_u) * logistic(f_u, -1)).sum(-1)
        n_positive = f_p.shape[-1] + label_u.sum(-1)
        n_negative = (1 - label_u).sum(-1).clamp_min(1)
        return self.prior * positive / n_positive + (1 - self.prior) * negative / n_negative

    def loss(self, batch: Batch) -> Tensor:
        """Return the supervised risk of a step."""
        if batch.label_u is None:
            raise RuntimeError("the engine gives true labels to supervised baselines only")
        return self.supervised_risk(*batch.split(self.f(batch.x)), batch.label_u)


class PNNaive(Algorithm):
    """Unlabeled taken as negative: the empirical risk ``rate mean_P l+ + (1-rate) mean_U l-``.

    Its logit models the chance of a label, which is at most the share of positives with a label. If
    that is below one half, a good model says negative everywhere, although it ranks well.
    """

    name, title = "pn-naive", "PN (naive)"
    paper = "lower baseline: every unlabeled point counts as a negative"
    needs_prior, baseline = False, True
    differs = "Not part of the published code."

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the risk of telling labeled from unlabeled."""
        return self.rate * logistic(f_p, +1).mean(-1) + (1 - self.rate) * logistic(f_u, -1).mean(-1)


class PNQuantile(MarginalQuantile, PNNaive):
    """``rate mean_P l+ + (1-rate) mean_U l-``; positive iff ``f >= t``.

    pn-naive with a threshold that a share ``prior`` of a marginal training sample reaches: P and U
    of one-sample data, U of two-sample data. If labels are given at random, its order is that of
    the classes and only its zero is wrong.
    """

    name, title = "pn-quantile", "PN (naive, cut at the prior)"
    paper = "lower baseline: pn-naive, with the prior's share of points predicted positive"
    needs_prior, in_paper, in_all = True, False, True

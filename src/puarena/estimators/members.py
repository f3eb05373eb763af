"""Fitted models as plain data: numbers that can be written to a file and read back without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.classics.wrapper import PUWrapper, predict_positive
from puarena.errors import UserError
from puarena.estimators.training import Model, Network

Floats = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]


NODES = ("left", "right", "feature", "threshold", "missing_left", "value", "start")


def log_odds(p: Floats) -> Floats:
    """Log-odds, kept finite."""
    p = np.clip(p, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(p / (1 - p)))


class Member:
    """A fitted model: it scores rows, of which it is given both forms."""

    kind: ClassVar[str]

    def score(self, dense: Any, tree: Any) -> Floats:
        """Larger for rows that look more positive."""
        raise NotImplementedError

    def plain(self) -> tuple[dict[str, Any], Arrays]:
        """Facts and arrays from which ``restored`` makes it again."""
        raise NotImplementedError

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays) -> Member:
        """The member that ``plain`` described."""
        raise NotImplementedError


@dataclass(frozen=True)
class LinearMember(Member):
    """A linear function of the dense form."""

    kind = "linear"
    coef: Floats
    intercept: float

    def score(self, dense: Any, tree: Any) -> Floats:
        """The linear function."""
        return np.asarray(dense @ self.coef + self.intercept, float)

    def plain(self) -> tuple[dict[str, Any], Arrays]:
        """Its coefficients."""
        return {"intercept": self.intercept}, {"coef": self.coef}

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays) -> Member:
        """From coefficients."""
        return cls(arrays["coef"], float(facts["intercept"]))


@dataclass(frozen=True)
class ForestMember(Member):
    """Trees as arrays of nodes, one after another; a leaf's children are -1 and its value is a probability."""

    kind = "trees"
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    threshold: Floats
    missing_left: npt.NDArray[np.uint8]
    value: Floats
    start: npt.NDArray[np.int64]  # of every tree
    built: list[Any] = field(
        default_factory=list, compare=False, repr=False
    )  # the same as scikit-learn's own trees

    @classmethod
    def of(cls, models: Sequence[Any]) -> ForestMember:
        """From fitted decision trees of classes 0 and 1."""
        parts: list[list[npt.NDArray[Any]]] = []
        start = 0
        for model in models:
            nodes, values = model.tree_.__getstate__()["nodes"], model.tree_.value[:, 0]
            share = (
                values[:, 1] / values.sum(1)
                if values.shape[1] == 2
                else np.full(len(values), model.classes_[0])
            )
            leaf = nodes["left_child"] < 0
            left, right = (
                np.where(leaf, -1, nodes[side] + start) for side in ("left_child", "right_child")
            )
            missing = nodes["missing_go_to_left"].astype(np.uint8)
            first = np.array([start])
            parts.append(
                [
                    left,
                    right,
                    np.where(leaf, 0, nodes["feature"]),
                    nodes["threshold"].copy(),
                    missing,
                    share,
                    first,
                ]
            )
            start += len(nodes)
        joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
        arrays: dict[str, Any] = dict(zip(NODES, joined, strict=True))
        return cls(**arrays)

    def score(self, dense: Any, tree: Any) -> Floats:
        """The log-odds of the mean probability, of which one tree's worth is one half."""
        x = np.ascontiguousarray(tree, np.float32)
        if x.shape[1] <= self.feature.max(initial=0):
            raise ValueError(
                f"its trees ask for feature {self.feature.max()}, and a row has {x.shape[1]}"
            )
        total = np.zeros(len(x))
        for own in self._trees():
            total += own.predict(x)[:, 0]
        return log_odds((total + 0.5) / (len(self.start) + 1))

    def _trees(self) -> list[Any]:
        """The trees as scikit-learn walks them, made once of the nodes."""
        if not self.built:
            from sklearn.tree._tree import NODE_DTYPE, Tree

            trees = []
            for start, end in zip(self.start, [*self.start[1:], len(self.left)], strict=True):
                own = slice(start, end)
                nodes = np.zeros(end - start, NODE_DTYPE)
                leaf = self.left[own] < 0
                for name, side in (("left_child", self.left), ("right_child", self.right)):
                    nodes[name] = np.where(leaf, -1, side[own] - start)
                nodes["feature"], nodes["threshold"] = self.feature[own], self.threshold[own]
                nodes["missing_go_to_left"] = self.missing_left[own]
                tree = Tree(int(self.feature.max(initial=0)) + 1, np.ones(1, np.intp), 1)
                state = {"max_depth": len(nodes), "node_count": len(nodes), "nodes": nodes}
                tree.__setstate__(
                    state | {"values": np.ascontiguousarray(self.value[own, None, None])}
                )
                trees.append(tree)
            self.built[:] = trees  # at once: another thread sees none or all
        return self.built

    def plain(self) -> tuple[dict[str, Any], Arrays]:
        """Its nodes."""
        return {}, {name: getattr(self, name) for name in NODES}

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays) -> Member:
        """From nodes, each of which must lead to later ones: a file cannot send a row in circles."""
        member = cls(**arrays)  # type: ignore[arg-type]
        here, inner = np.arange(len(member.left)), member.left >= 0
        end = np.append(member.start[1:], len(here)).repeat(np.diff(member.start, append=len(here)))
        sides = [member.left[inner], member.right[inner]]
        apart = any((side <= here[inner]).any() or (side >= end[inner]).any() for side in sides)
        if (
            apart
            or member.start[0] != 0
            or (member.feature < 0).any()
            or member.feature.dtype != np.int64
        ):
            raise ValueError("the nodes of its trees do not hang together")
        return member

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "built": []}


@dataclass(frozen=True)
class NetworkMember(Member):
    """A trained network."""

    kind = "network"
    model: Model

    def score(self, dense: Any, tree: Any) -> Floats:
        """Its logit."""
        return self.model.logits(dense)

    def plain(self) -> tuple[dict[str, Any], Arrays]:
        """Its weights."""
        return self.model.plain()

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays) -> Member:
        """From weights."""
        return cls(Model.restored(facts, arrays))


@dataclass(frozen=True)
class GivenMember(Member):
    """A classifier of someone else's."""

    kind = "given"
    estimator: Any
    trees: bool

    def score(self, dense: Any, tree: Any) -> Floats:
        """Its decision, or the log-odds of its probability."""
        X, model = tree if self.trees else dense, self.estimator
        if hasattr(model, "decision_function") and not isinstance(model, PUWrapper):
            return np.asarray(model.decision_function(X), float)
        return log_odds(predict_positive(model, X))

    def plain(self) -> tuple[dict[str, Any], Arrays]:
        """It cannot be written without pickle."""
        raise UserError(
            f"{type(self.estimator).__name__} is not puarena's own and cannot be written without pickle; keep the "
            "fitted classifier with joblib, or fit with algorithm='auto'"
        )


KINDS: dict[str, type[Member]] = {
    cls.kind: cls for cls in (LinearMember, ForestMember, NetworkMember)
}


@dataclass(frozen=True)
class Part:
    """The members of one learner, and the middle and spread of their held-out scores."""

    name: str
    members: list[Member]
    center: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True)
class Ensemble:
    """The mean over learners of the mean over their members."""

    parts: list[Part]

    def score(self, dense: Any, tree: Any) -> Floats:
        """Larger for rows that look more positive."""
        total = np.zeros(dense.shape[0])
        for part in self.parts:
            mean = np.mean([member.score(dense, tree) for member in part.members], axis=0)
            total += (mean - part.center) / part.scale
        return total / len(self.parts)

    def plain(self) -> tuple[list[dict[str, Any]], Arrays]:
        """Facts and arrays."""
        facts: list[dict[str, Any]] = []
        arrays: Arrays = {}
        for i, part in enumerate(self.parts):
            listed = []
            for j, member in enumerate(part.members):
                own, numbers = member.plain()
                listed.append({"kind": member.kind, **own})
                arrays.update({f"{i}.{j}.{name}": array for name, array in numbers.items()})
            facts.append(
                {"name": part.name, "center": part.center, "scale": part.scale, "members": listed}
            )
        return facts, arrays

    @classmethod
    def restored(
        cls, facts: list[dict[str, Any]], arrays: Arrays, network: Network = "mlp"
    ) -> Ensemble:
        """The ensemble that ``plain`` described."""
        parts = []
        for i, part in enumerate(facts):
            members = []
            for j, told in enumerate(part["members"]):
                own = {
                    n.split(".", 2)[2]: a for n, a in arrays.items() if n.startswith(f"{i}.{j}.")
                }
                plain = {key: value for key, value in told.items() if key != "kind"}
                if "network" in plain:
                    plain["network"] = plain["network"] or network
                members.append(KINDS[told["kind"]].restored(plain, own))
            parts.append(
                Part(str(part["name"]), members, float(part["center"]), float(part["scale"]))
            )
        return cls(parts)

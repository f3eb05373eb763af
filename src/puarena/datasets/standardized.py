"""Any dataset once more, every feature brought to mean 0 and deviation 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from puarena.datasets.dataset import Dataset, DatasetInfo


@dataclass(frozen=True)
class Standardized:
    """Reads what another reader reads, from its files; labels are not looked at."""

    raw: Any  # a reader: has INFO and read

    @property
    def INFO(self) -> DatasetInfo:  # noqa: N802
        """The other's record under a name of its own."""
        info: DatasetInfo = self.raw.INFO
        return replace(
            info,
            name=f"{info.name}-standardised",  # names are part of the seeds and are never changed
            title=f"{info.title}, standardized",
            description=f"the dataset {info.name}, read from the same file, every feature with mean 0 and deviation 1",
            files=(),
            files_of=info.name,
            order=info.order + 1,
        )

    def read(self, folder: Path | None) -> Dataset:
        """Scale the features."""
        raw: Dataset = self.raw.read(folder)
        deviation = raw.features.std(0)
        scaled = (raw.features - raw.features.mean(0)) / np.where(deviation > 0, deviation, 1)
        return replace(raw, name=self.INFO.name, features=scaled, revision="")

"""A typed list of modules: `nn.ModuleList` whose elements a type checker knows. Owns nothing else."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, cast

from torch import nn

Layer = TypeVar("Layer", bound=nn.Module)


class Layers(nn.ModuleList, Generic[Layer]):
    """Modules of one kind, under the keys 0, 1, 2 and so on."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        super().__init__(layers)

    def __iter__(self) -> Iterator[Layer]:
        return cast("Iterator[Layer]", super().__iter__())

    def __getitem__(self, index: int) -> Layer:  # type: ignore[override]  # slices are not used
        return cast("Layer", super().__getitem__(index))

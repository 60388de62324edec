"""What every estimator shares: scikit-learn's parameters protocol, without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any


class Estimator:
    """Parameters are the constructor's arguments, stored untouched; learned attributes end in an underscore."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Any:
        """Set constructor arguments; an unknown name is a ValueError."""
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(names)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        changed = ", ".join(
            f"{name}={value!r}" for name, value in self.get_params().items() if not _same(value, defaults[name])
        )
        return f"{type(self).__name__}({changed})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(two_d_array=False)
        )


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value is default or value == default)
    except (TypeError, ValueError):
        return False

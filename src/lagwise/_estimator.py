"""scikit-learn's conventions without scikit-learn: parameters are the constructor's arguments, stored untouched."""

from __future__ import annotations

import inspect
from typing import Any


class Estimator:
    """Base of the estimators: `get_params`, `set_params`, a readable repr; works with ``sklearn.base.clone``."""

    @classmethod
    def _parameter_defaults(cls) -> dict[str, Any]:
        signature = inspect.signature(cls.__init__)
        return {name: p.default for name, p in signature.parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; with `deep` also those of estimators among them, as ``name__parameter``."""
        params = {name: getattr(self, name) for name in self._parameter_defaults()}
        if deep:
            for name, value in list(params.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    params.update({f"{name}__{key}": inner for key, inner in value.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Any:
        """Set arguments by name and return self; ValueError for a name the constructor does not have."""
        names = list(self._parameter_defaults())
        for name, value in params.items():
            outer, _, inner = name.partition("__")
            if outer not in names:
                raise ValueError(f"{type(self).__name__} has no parameter {outer!r}; it has {', '.join(names)}")
            if inner:
                getattr(self, outer).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = []
        for name, default in self._parameter_defaults().items():
            value = getattr(self, name)
            if value is not default and not (type(value) is type(default) and value == default):
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"

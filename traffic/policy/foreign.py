"""Policies that users bring: a plain class with one or two methods, made into a `Policy`.

What a method leaves out is done as `least_loaded` does it. Parameters are the keyword arguments of
the constructor, with their defaults. A method that raises, hangs, answers nonsense or writes into
the view ends the run with one line that names the policy, the method and the request.
docs/policies.md has an example.
"""

import inspect
import operator
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Final, get_args

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traffic.policy.balance import LeastLoaded
from traffic.policy.choice import (
    OPTIONAL,
    SIGHTS,
    NoSettings,
    Policy,
    PolicyError,
    Request,
    Sight,
    View,
)
from traffic.policy.patience import LIMIT_S, TooLong, within
from traffic.policy.view import read_only

GROUP: Final = "kvfabric.policies"
"""The entry point group under which installed packages offer policies by name."""

METHODS: Final = ("prefill", "decode", *(name for name in OPTIONAL if name != "counters"))
"""What a class may answer, of which it needs one."""

IMPORT_S: Final = 60.0
"""An import may load large libraries from a slow disk."""

_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_GIVEN: Final = ("hops", "seed")


class Foreign:
    """A policy around an object that a user wrote; subclasses know its class as ``given``."""

    name: ClassVar[str] = ""
    settings: ClassVar[type[Struct]] = NoSettings
    sees: ClassVar[frozenset[Sight]] = frozenset(SIGHTS)
    source: ClassVar[str] = ""
    given: ClassVar[type] = object
    limit_s: ClassVar[float] = LIMIT_S

    def __init__(self, settings: Struct, hops: NDArray[np.int32], seed: int) -> None:
        self._view = self._glass = View.idle(hops)
        self._spare = LeastLoaded(NoSettings(), hops, seed)
        self._user = self._called("__init__", None, lambda: self._made(settings, hops, seed))
        for name in OPTIONAL:
            if hasattr(self._user, name):
                setattr(self, name, getattr(self, f"_{name}"))

    def _shown(self, view: View) -> View:
        """The view with arrays that refuse to be written; they are the same from call to call."""
        if view is not self._view:
            self._view, self._glass = view, read_only(view)
        glass = self._glass
        glass.now_ps, glass.prefix = view.now_ps, view.prefix
        glass.network, glass.time = view.network, view.time
        return glass

    def _made(self, settings: Struct, hops: NDArray[np.int32], seed: int) -> Any:
        if _is_policy(self.given):
            return self.given(settings, hops, seed)
        values = msgspec.structs.asdict(settings)
        known = inspect.signature(self.given).parameters
        values |= {n: v for n, v in zip(_GIVEN, (hops, seed), strict=True) if n in known}
        return self.given(**values)

    def prefill(self, request: Request, view: View) -> int:
        """What the user's ``prefill`` answers, or the least loaded instance."""
        if not hasattr(self._user, "prefill"):
            return self._spare.prefill(request, view)
        asked = self._user.prefill
        return self._number("prefill", request, lambda: asked(request, self._shown(view)))

    def decode(self, request: Request, prefill: int, view: View) -> int:
        """What the user's ``decode`` answers, or the least loaded instance."""
        if not hasattr(self._user, "decode"):
            return self._spare.decode(request, prefill, view)
        asked = self._user.decode
        return self._number("decode", request, lambda: asked(request, prefill, self._shown(view)))

    def pairs(self, hops: NDArray[np.int32]) -> NDArray[np.bool_]:
        """What the user's ``pairs`` answers, or all that a path joins: it may choose no other."""
        if not hasattr(self._user, "pairs"):
            return np.asarray(hops >= 0)
        found = np.asarray(self._called("pairs", None, lambda: self._user.pairs(hops)))
        if found.shape != hops.shape or found.dtype != np.bool_:
            raise PolicyError(
                f"policy {self.name}: pairs() answered {found.dtype} of shape {found.shape}; "
                f"answer booleans, prefill x decode, {hops.shape}"
            )
        return found

    def _pair(self, request: Request, view: View) -> tuple[int, int]:
        answer = self._called("pair", request, lambda: self._user.pair(request, self._shown(view)))
        try:
            prefill, decode = answer
        except (TypeError, ValueError):
            remedy = "answer (prefill instance, decode instance)"
            raise self._nonsense("pair", request, answer, remedy) from None
        return (
            self._whole("pair", request, prefill),
            self._whole("pair", request, decode),
        )

    def _scores(self, request: Request, view: View) -> NDArray[np.float64]:
        asked = self._user.scores
        answer = self._called("scores", request, lambda: asked(request, self._shown(view)))
        try:
            scores = np.asarray(answer, np.float64)
        except (TypeError, ValueError):
            remedy = "answer an array, prefill x decode"
            raise self._nonsense("scores", request, answer, remedy) from None
        if np.isnan(scores).any():
            raise self._nonsense("scores", request, "NaN", "answer numbers, or inf for never")
        return scores

    def _priority(self, request: Request, view: View) -> int:
        asked = self._user.priority
        return self._number("priority", request, lambda: asked(request, self._shown(view)))

    def _counters(self) -> dict[str, int]:
        answer = self._called("counters", None, lambda: self._user.counters())
        if not isinstance(answer, Mapping):
            raise self._nonsense("counters", None, answer, "answer whole numbers by name")
        return {str(name): self._whole("counters", None, n) for name, n in answer.items()}

    def _number(self, method: str, request: Request, call: Callable[[], Any]) -> int:
        return self._whole(method, request, self._called(method, request, call))

    def _whole(self, method: str, request: Request | None, answer: Any) -> int:
        """A Python or numpy integer, as an int."""
        if not isinstance(answer, bool | np.bool_):
            try:
                return operator.index(answer)
            except TypeError:
                pass
        raise self._nonsense(
            method, request, answer, "answer the number of an instance, counted from 0"
        )

    def _nonsense(
        self, method: str, request: Request | None, answer: Any, remedy: str
    ) -> PolicyError:
        return PolicyError(
            f"policy {self.name}: {method}() answered {_short(answer)}{_of(request)}; {remedy}"
        )

    def _called(self, method: str, request: Request | None, call: Callable[[], Any]) -> Any:
        """The answer of the user's code, or one line about why there is none."""

        def hangs() -> str:
            return (
                f"policy {self.name}: {method}() did not answer within {self.limit_s:g} s"
                f"{_of(request)}; a choice should take microseconds"
            )

        try:
            return within(self.limit_s, hangs, call)
        except TooLong:
            raise PolicyError(hangs()) from None
        except (Exception, SystemExit) as error:
            raise PolicyError(
                f"policy {self.name}: {method}() raised {type(error).__name__}: "
                f"{_short(error, plain=True)}{_of(request)}, {_place(error)}"
            ) from error


def foreign(given: Any, name: str, limit_s: float = LIMIT_S) -> type[Policy]:
    """The policy class around a user's class; refuses what has none of `METHODS`."""
    if not isinstance(given, type):
        raise PolicyError(f"policy {name}: {_short(given)} is no class; name a class")
    if not any(callable(getattr(given, method, None)) for method in METHODS):
        raise PolicyError(
            f"policy {name}: class {given.__name__} has no method that chooses; write "
            "prefill(self, request, view) or decode(self, request, prefill, view)"
        )
    sees = frozenset(getattr(given, "sees", SIGHTS))
    if not sees <= set(SIGHTS):
        raise PolicyError(
            f"policy {name}: sees {', '.join(map(str, sorted(sees)))}; write of {', '.join(SIGHTS)}"
        )
    body = {
        "name": name,
        "settings": given.settings if _is_policy(given) else _settings(given, name),  # type: ignore[attr-defined]
        "sees": sees,
        "source": str(getattr(given, "source", f"{given.__module__}:{given.__qualname__}")),
        "given": given,
        "limit_s": limit_s,
        "__doc__": inspect.getdoc(given) or "A policy of a user, without a docstring.",
    }
    made: type[Policy] = type(given.__name__, (Foreign,), body)
    return made


def imported(path: str, limit_s: float = IMPORT_S) -> type[Policy]:
    """The policy at an import path, ``module:Class``. This runs the module's code."""
    if not _PATH.fullmatch(path):
        raise PolicyError(f"policy {path[:80]!r}: not an import path; write module:Class")
    module, _, name = path.partition(":")
    hangs = f"policy {path}: importing {module} did not end within {limit_s:g} s"
    try:
        found = within(limit_s, lambda: hangs, lambda: import_module(module))
    except TooLong:
        raise PolicyError(f"{hangs}; let it define the class and no more") from None
    except ModuleNotFoundError as error:
        raise PolicyError(
            f"policy {path}: no module {error.name!r}; put it beside the scenario or into the "
            "working folder, or install it"
        ) from None
    except (Exception, SystemExit) as error:
        raise PolicyError(
            f"policy {path}: importing {module} raised {type(error).__name__}: "
            f"{_short(error, plain=True)}, {_place(error)}"
        ) from error
    if not hasattr(found, name):
        raise PolicyError(f"policy {path}: module {module} has no {name}; name a class in it")
    return foreign(getattr(found, name), path)


def source_file(path: str) -> Path | None:
    """The file of the module at an import path; None where it has none. This runs the code of the
    packages around it."""
    try:
        found = find_spec(path.partition(":")[0])
    except (ImportError, ValueError):
        return None
    return None if found is None or found.origin is None else Path(found.origin)


def offered() -> dict[str, EntryPoint]:
    """The policies that installed packages offer, by name; nothing of them is imported.

    Refuses a name that two packages offer.
    """
    found: dict[str, EntryPoint] = {}
    for each in entry_points(group=GROUP):
        if each.name in found and found[each.name].value != each.value:
            raise PolicyError(
                f"policy {each.name}: offered by two installed packages, as "
                f"{found[each.name].value} and {each.value}; remove one"
            )
        found[each.name] = each
    return found


def installed(entry: EntryPoint) -> type[Policy]:
    """The policy that an installed package offers."""
    try:
        return foreign(entry.load(), entry.name)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(
            f"policy {entry.name}: {entry.value} of an installed package cannot be imported: "
            f"{type(error).__name__}: {_short(error, plain=True)}"
        ) from error


def _is_policy(given: type) -> bool:
    settings = getattr(given, "settings", None)
    return isinstance(settings, type) and issubclass(settings, Struct)


def _settings(given: type, name: str) -> type[Struct]:
    """A struct of the constructor's keyword arguments."""
    try:
        signature = inspect.signature(given, eval_str=True)
    except (NameError, TypeError):
        signature = inspect.signature(given)
    except ValueError:
        return NoSettings
    fields: list[Any] = []
    for each in signature.parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) or each.name in _GIVEN:
            continue
        if each.kind is each.POSITIONAL_ONLY:
            raise PolicyError(
                f"policy {name}: constructor argument {each.name} takes no keyword; remove the /"
            )
        kind = _plain(each.annotation)
        fields.append(
            (each.name, kind) if each.default is each.empty else (each.name, kind, each.default)
        )
    return msgspec.defstruct(
        "Settings", fields, kw_only=True, frozen=True, forbid_unknown_fields=True
    )


def _plain(kind: Any) -> Any:
    """The annotation, where it is one that a scenario's values can be held to."""
    parts = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return kind if all(part in (int, float, str, bool, type(None)) for part in parts) else Any


def _of(request: Request | None) -> str:
    return "" if request is None else f" for request {request.request}"


def _short(value: Any, *, plain: bool = False) -> str:
    """One line of at most 80 characters."""
    try:
        text = " ".join((str(value) if plain else repr(value)).split())
    except Exception:
        text = f"a {type(value).__name__} that cannot be shown"
    return text if len(text) <= 80 else text[:77] + "..."


def _place(error: BaseException) -> str:
    """Where the user's code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = {__file__, sys.modules[within.__module__].__file__}
    theirs = [frame for frame in frames if frame.filename not in mine] or list(frames)
    return f"at {theirs[-1].filename}:{theirs[-1].lineno}" if theirs else "in compiled code"

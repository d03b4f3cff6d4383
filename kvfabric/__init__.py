"""The face: scenario files, runs, comparisons and the command line. It joins the other rooms.

For notebooks: ``kvfabric.results("out/first-look")``, see `kvfabric.notebook`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvfabric.notebook import Results, results

__all__ = ["Results", "results"]


def __getattr__(name: str) -> Any:
    """Import what notebooks use when they use it, so that the command line starts at once."""
    if name in __all__:
        from kvfabric import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

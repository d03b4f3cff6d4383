"""Scratch copies of the sources with an engine of their own: another compiler, flags, or a change.

Nothing in the checkout is touched. The engine is compiled file by file into the copy; an object is
kept by what went into it (preprocessed source, compiler, flags), so that a change of one header
compiles only what includes it.
"""

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nanobind

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("topo", "traffic", "emulate", "analysis", "kvfabric", "tests", "scenarios", "bench")


@dataclass(frozen=True)
class Toolchain:
    """A compiler and its flags; ``cache`` keeps objects from one build to the next.

    ``checks`` are further flags for the engine itself, not for the bindings around it.
    """

    compiler: str
    flags: tuple[str, ...]
    cache: Path
    checks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Such as ``g++ -O1``."""
        return " ".join((self.compiler, *self.flags))

    def of(self, source: Path) -> tuple[str, ...]:
        """The flags of one source."""
        binds = source.stem.startswith(("bindings", "nb_"))
        return self.flags if binds else (*self.flags, *self.checks)


def copy(to: Path) -> Path:
    """Copies the sources into a new directory; returns it."""
    to.mkdir(parents=True, exist_ok=True)
    skip = shutil.ignore_patterns("__pycache__", "*.so", ".hypothesis")
    for room in ROOMS:
        shutil.copytree(ROOT / room, to / room, ignore=skip)
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def compile_engine(at: Path, tools: Toolchain, jobs: int = 2) -> None:
    """Builds ``emulate._engine`` in the copy; raises `RuntimeError` when it does not compile."""
    sources = sorted((at / "emulate" / "engine").glob("*.cpp"))
    binding = Path(nanobind.source_dir()) / "nb_combined.cpp"
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        objects = list(pool.map(lambda source: _object(source, at, tools), [binding, *sources]))
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    target = at / "emulate" / f"_engine{suffix}"
    _run([tools.compiler, "-shared", *map(str, objects), "-o", str(target)])


def _object(source: Path, at: Path, tools: Toolchain) -> Path:
    nano = Path(nanobind.include_dir())
    command = [
        tools.compiler, "-std=c++20", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off",
        "-fno-strict-aliasing", "-DNDEBUG", *tools.of(source), f"-I{nano}",
        f"-I{nano.parent / 'ext' / 'robin_map' / 'include'}", f"-I{sysconfig.get_path('include')}",
        f"-ffile-prefix-map={at}=.",
    ]  # fmt: skip
    text = _run([*command, "-E", "-P", str(source)])
    made_of = "\n".join([tools.compiler, *tools.of(source), text])
    key = hashlib.sha256(made_of.encode()).hexdigest()[:24]
    made = tools.cache / f"{source.stem}-{key}.o"
    if not made.exists():
        tools.cache.mkdir(parents=True, exist_ok=True)
        partial = made.with_suffix(f".{os.getpid()}.part")
        _run([*command, "-c", str(source), "-o", str(partial)])
        partial.rename(made)
    return made


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:2])} ...: {done.stderr[-2000:]}")
    return done.stdout


def preload(*libraries: str) -> str:
    """gcc's own runtime libraries, such as ``asan``, for LD_PRELOAD."""
    return " ".join(_run(["g++", f"-print-file-name=lib{name}.so"]).strip() for name in libraries)


def python(
    at: Path, *arguments: str, seconds: float, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs Python on the copy: its packages first, then what is installed; no editable finders.

    ``more`` goes into its environment. Raises `subprocess.TimeoutExpired`.
    """
    paths = [str(at), str(at / "bench"), *(p for p in sys.path if "site-packages" in p)]
    env = {
        **os.environ,
        **(more or {}),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, "-S", *arguments], cwd=at, env=env, capture_output=True, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip

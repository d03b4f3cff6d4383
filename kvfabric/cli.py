"""The command line: one file per verb under ``kvfabric/command``, loaded when it is used.

Exit codes: 0 done, 1 a check failed, 2 bad input or an impossible request, 130 interrupted.
"""

import errno
import importlib
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any, Final

import click

from kvfabric.fontcache import spare_cache
from topo.error import KvfabricError

_VERBS: Final = {
    "compare": "Compare fabrics and policies on the same requests; table, verdict, report.",
    "run": "Run one scenario without its comparison.",
    "goodput": "Search the highest rate that meets the objectives, for every alternative.",
    "report": "Write the report of a results folder again.",
    "diff": "Tell what changed between two results, and how sure that is.",
    "explain": "Tell step by step what held one hand-off of a results folder.",
    "victims": "Tell which flows are slowed by the congestion of others, and how much.",
    "emulate": "Run one scenario on real frames, in a Mininet network, slowed down.",
    "crosscheck": "Put the same flows through every emulator, side by side.",
    "doctor": "Say whether real frames are possible here, and what to install.",
    "inject": "Send bursts of KV cache, or a capture, from one interface to another.",
    "capture": "Write the frames of an interface, or of a link of a run, as pcapng.",
    "clean": "Remove what killed runs on real frames left.",
    "topo": "Design, compare, draw, convert and check fabrics; list their families.",
    "traffic": "Show, draw and export requests; retell them by tokeniser; get public traces.",
    "policies": "List the mapping policies: what each sees, its parameters, its source.",
    "init": "Write a commented scenario from a few facts about your pools.",
    "schema": "Print the JSON Schema of scenario files, for editors.",
}


class Verbs(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All verbs, in the order a newcomer meets them."""
        return list(_VERBS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; of an unknown one its likeliest meaning is told, or all there are."""
        if args[0] not in _VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            like = get_close_matches(args[0], _VERBS, 1)
            told = f"did you mean {like[0]}?" if like else f"write one of {', '.join(_VERBS)}"
            ctx.fail(f"no command {args[0][:40]!r}; {told}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the verb's module and return its command."""
        if cmd_name not in _VERBS:
            return None
        found: click.Command = importlib.import_module(f"kvfabric.command.{cmd_name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of verbs, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_VERBS.items()))


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: kvfabric compare scenarios/first-look.yaml",
)
@click.version_option(package_name="kvfabric", message="kvfabric %(version)s")
def kvfabric() -> None:
    """Which fabric and which prefill-to-decode mapping policy keep the KV-cache hand-off inside
    its budget? Evidence from packets, with the cheap estimates beside it."""


def main(argv: list[str] | None = None) -> None:
    """Run the command line; a user's mistake becomes one line on stderr and exit code 2."""
    signal.signal(signal.SIGTERM, _interrupt)
    spare_cache()
    try:
        _refuse_place_and_bytes(sys.argv[1:] if argv is None else argv)
        done: Any = kvfabric.main(args=argv, prog_name="kvfabric", standalone_mode=False)
        sys.stdout.flush()
        code = done if isinstance(done, int) else 0
    except KvfabricError as error:
        click.echo(f"kvfabric: {error}", err=True)
        code = 2
    except click.MissingParameter as error:
        usage = error.ctx.get_usage().partition(": ")[2] if error.ctx else "kvfabric --help"
        missing = error.format_message().removesuffix(".").replace("Missing", "missing", 1)
        click.echo(f"kvfabric: {missing}; write {' '.join(usage.split())}", err=True)
        code = error.exit_code
    except click.ClickException as error:
        click.echo(f"kvfabric: {error.format_message()}", err=True)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        verb = next(iter(sys.argv[1:] if argv is None else argv), "")
        kept = "; finished cells are kept" if verb in ("run", "compare") else ""
        click.echo(f"kvfabric: interrupted{kept}", err=True)
        code = 130
    except OSError as error:
        code = _no_such_place(error) if error.errno in _OF_PLACES else _end_of_output(error)
    except SystemExit as stop:
        # rich and click turn a reader that went away into an exit of their own, with 1.
        if not (isinstance(stop.__context__, BrokenPipeError) or _unread(sys.stdout.fileno())):
            raise
        code = _end_of_output(BrokenPipeError(errno.EPIPE, "the reader went away"))
    sys.exit(code)


def _refuse_place_and_bytes(argv: list[str]) -> None:
    """Refuse to work where no directory is any more, and names that no result could tell again."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise KvfabricError("this directory is gone; change to one that is there") from None
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(word).decode("utf-8", "backslashreplace")
            told = f"{shown[:200]}: not UTF-8; write a name that is"
            if "\\x" not in shown:
                told = f"{shown[:200]}: this locale knows no such characters; set LC_ALL=C.UTF-8"
            raise KvfabricError(told) from None


def _unread(descriptor: int) -> bool:
    """Is it a pipe that nobody reads any more?"""
    watch = select.poll()
    watch.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))


_OF_PLACES: Final = frozenset(
    (
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR),
        *(errno.ENAMETOOLONG, errno.ELOOP),
    )
)
"""What a place that the user named can be; a file that is missing is asked for by us, a bug."""


def _no_such_place(error: OSError) -> int:
    """A place in the file system refuses; one that no file is named for is a bug."""
    if error.filename is None:
        raise error
    name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
    click.echo(f"kvfabric: {str(name)[:200]}: {error.strerror}; choose another place", err=True)
    return 2


def _end_of_output(error: OSError) -> int:
    """The reader went away, as `head` does, or the device is full; anything else is a bug."""
    if error.errno not in (errno.EPIPE, errno.ENOSPC):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:
        return 0
    click.echo(f"kvfabric: standard output: {error.strerror}", err=True)
    return 2


def _interrupt(*_: object) -> None:
    """SIGTERM ends a run as Ctrl-C does."""
    raise KeyboardInterrupt

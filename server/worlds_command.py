"""`python -m server worlds …`: look at worlds, fork, delete, export, import and verify them, while no server runs.

Each command takes a world by its name or id. Exit 1 when the world's files say no, 2 for a wrong question.
"""

import errno
import json
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from server.faults import WorldFault

EXIT_FAULT = 1
EXIT_USAGE = 2

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Look at worlds on disk, fork, delete, export, import and verify."
)

Root = Annotated[Path, typer.Option("--worlds", metavar="DIR", help="Where worlds are kept.")]
World = Annotated[str, typer.Argument(metavar="WORLD", help="Its name or id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of text.")]
DEFAULT_ROOT = Path("worlds")


@app.command("list")
def list_worlds(worlds: Root = DEFAULT_ROOT, json_wanted: AsJson = False) -> None:  # noqa: FBT002 - a flag
    """Every world: name, model, when it was made, how much was walked, and what it weighs."""
    from server.world_facts import facts_of, world_line  # noqa: PLC0415 - slow to import

    found = sorted(_worlds(worlds).cards(), key=lambda card: card.created_s)
    facts = [facts_of(worlds / card.id, card) for card in found]
    if json_wanted:
        typer.echo(json.dumps(facts, indent=1))
    elif facts:
        typer.echo("\n".join(world_line(fact) for fact in facts))
    else:
        typer.echo(f"there are no worlds in {worlds}")


@app.command()
def show(world: World, worlds: Root = DEFAULT_ROOT, json_wanted: AsJson = False) -> None:  # noqa: FBT002 - a flag
    """One world: its branches, its snapshots, its memory, and under which conditions it was drawn."""
    from server.world_facts import describe, facts_of  # noqa: PLC0415 - slow to import

    folder, card = _find(worlds, world)
    facts = facts_of(folder, card)
    typer.echo(json.dumps(facts, indent=1) if json_wanted else describe(facts))


@app.command()
def log(world: World, worlds: Root = DEFAULT_ROOT) -> None:
    """The tree of moments as text: where it began, forks, snapshots, and the head of every branch."""
    from server.world_log import read_world_log  # noqa: PLC0415 - slow to import
    from server.world_tree import tree_lines  # noqa: PLC0415 - slow to import

    folder, card = _find(worlds, world)
    typer.echo("\n".join([f"{card.name}  ({card.model}, seed {card.seed})", *tree_lines(read_world_log(folder))]))


@app.command()
def fork(
    world: World,
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="The new branch's name.")],
    at: Annotated[str, typer.Option(metavar="WHERE", help="A branch, a snapshot, or a moment that is kept.")] = "main",
    worlds: Root = DEFAULT_ROOT,
) -> None:
    """Begin a new branch where a branch stands, or at a snapshot. The walk there goes on as before."""
    from server.folder_lock import FolderLock  # noqa: PLC0415 - slow to import
    from server.world_fork import fork_world  # noqa: PLC0415 - slow to import

    folder, card = _find(worlds, world)
    with _told(), FolderLock(folder, "forked"):
        moment = fork_world(folder, card, branch, at)
    typer.echo(f"{card.name}: branch {branch!r} begins at moment {moment}. Enter it with that name.")


@app.command()
def delete(
    world: World,
    worlds: Root = DEFAULT_ROOT,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Delete a world and all that it remembers."""
    from server.folder_lock import FolderLock  # noqa: PLC0415 - slow to import
    from server.world_facts import facts_of, world_line  # noqa: PLC0415 - slow to import
    from server.worlds import DELETED  # noqa: PLC0415 - slow to import

    folder, card = _find(worlds, world)
    if not yes:
        typer.echo(world_line(facts_of(folder, card)))
        typer.confirm("Delete this world? It cannot be brought back.", abort=True)
    with _told(), _worlds(worlds).lock():
        _worlds(worlds).sweep()
        with FolderLock(folder, "deleted"):
            gone = folder.with_name(f"{DELETED}{card.id}")
            folder.rename(gone)  # from here on it is no world, whatever becomes of its files
            shutil.rmtree(gone)
    typer.echo(f"world {card.name!r} is deleted")


@app.command("export")
def export_one(
    world: World,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="For example attic.worldpager")],
    worlds: Root = DEFAULT_ROOT,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE when it exists.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Write a world into one file, for another machine or for safe keeping."""
    from server.export_world import export_world  # noqa: PLC0415 - imports torch
    from server.folder_lock import FolderLock  # noqa: PLC0415 - slow to import

    folder, card = _find(worlds, world)
    if file.is_dir() or not file.absolute().parent.is_dir():
        _refuse(
            f"{file} cannot be a file: {'it is a folder' if file.is_dir() else 'its folder is not there'}.", EXIT_USAGE
        )
    if file.exists() and not force:
        _refuse(f"{file} exists already. Name another file, or give --force to replace it.", EXIT_USAGE)
    started_s = time.monotonic()
    with _told(), FolderLock(folder, "exported"):
        exported = export_world(folder, card, file)
    for words in exported.left_out:
        typer.echo(f"left out: {words}", err=True)
    typer.echo(
        f"{file}: {exported.num_bytes:,} bytes, {exported.moments} moments, {exported.blocks} blocks, "
        f"{time.monotonic() - started_s:.1f} s"
    )
    if exported.left_out:
        raise typer.Exit(EXIT_FAULT)


@app.command("import")
def import_one(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What export wrote.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Call it by another name here.")] = "",
    worlds: Root = DEFAULT_ROOT,
) -> None:
    """Make a world of an exported file. Everything in it is checked first."""
    from server.import_world import import_world  # noqa: PLC0415 - imports torch
    from server.worlds import Worlds  # noqa: PLC0415 - slow to import

    with _told():
        card = import_world(file, Worlds(worlds), name)
    typer.echo(f"world {card.name!r} ({card.model}) is here as {card.id}. Walk in it by its name.")


@app.command()
def verify(
    world: Annotated[str, typer.Argument(metavar="[WORLD]", help="Its name or id; none: all worlds.")] = "",
    worlds: Root = DEFAULT_ROOT,
    json_wanted: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """Check every hash of the log, states, snapshots, thumbnails and blocks, and name what is damaged."""
    from server.folder_lock import FolderLock  # noqa: PLC0415 - slow to import
    from server.world_check import check_world  # noqa: PLC0415 - imports torch

    found = [_find(worlds, world)] if world else [(worlds / card.id, card) for card in _worlds(worlds).cards()]
    reports: list[dict[str, Any]] = []
    for folder, card in found:
        with _told(), FolderLock(folder, "verified"):
            reports.append({"world": card.name, "id": card.id, **asdict(check_world(folder, card))})
    if json_wanted:
        typer.echo(json.dumps(reports, indent=1))
    for report in reports if not json_wanted else ():
        _tell_health(report)
    if any(report["damaged"] for report in reports):
        raise typer.Exit(EXIT_FAULT)


def _tell_health(report: dict[str, Any]) -> None:
    looked = (
        f"{report['moments']} moments, {report['states']} saved heads, {report['snapshots']} snapshots, "
        f"{report['blocks']} blocks"
    )
    forgotten = f"; {report['forgotten_blocks']} blocks are forgotten" if report["forgotten_blocks"] else ""
    typer.echo(f"{report['world']}: {'DAMAGED' if report['damaged'] else 'whole'}. {looked}{forgotten}.")
    for damage in report["damaged"]:
        typer.echo(f"    {damage['what']}: {damage['why']}")


class _told:  # noqa: N801 - reads as a word of its with statement
    """A fault of the world becomes a line on stderr and exit 1."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: object) -> None:
        if isinstance(value, OSError):
            _refuse(_disk_words(value))
        if isinstance(value, WorldFault | ValueError):
            _refuse(str(value))


def _disk_words(error: OSError) -> str:
    where = f" at {error.filename}" if error.filename else ""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = f"the disk is full{where}" if is_full else f"the disk said no{where}: {error.strerror or error}"
    return f"{why}. It was not finished, and what was begun is taken back.{' Free some space.' if is_full else ''}"


def _refuse(text: str, status: int = EXIT_FAULT) -> NoReturn:
    print(text, file=sys.stderr)  # noqa: T201 - a command line prints
    raise typer.Exit(status)


def _worlds(root: Path) -> Any:
    from server.worlds import Worlds  # noqa: PLC0415 - slow to import

    if not root.is_dir():
        _refuse(f"there is no folder {root}. Name the worlds folder with --worlds DIR.", EXIT_USAGE)
    return Worlds(root)


def _find(root: Path, name: str) -> tuple[Path, Any]:
    with _told():
        card = _worlds(root).find(name)
    if card is None:
        _refuse(f"there is no world {name!r} in {root}. `python -m server worlds list` shows them.", EXIT_USAGE)
    return root / card.id, card

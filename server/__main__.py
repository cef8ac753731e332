"""The command line: `python -m server [serve] ...`. Checks the settings, sets torch's globals, starts the server.

torch is imported only once the settings are in order, so that --help and a wrong value are answered at once.
"""
# ruff: noqa: ARG001 - typer makes the options from the parameters; the values are read from its context

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from server import worlds_command
from server.config import Loaded, Settings, SettingsError, load_settings, make_worlds_folder

if TYPE_CHECKING:
    from server.engine import Engine

EXIT_FAULT = 1
EXIT_SETTINGS = 2
Text = str | None

app = typer.Typer(
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    help="WorldPager's server. Without a command it serves: `python -m server --port 8765`. "
    "`python -m server serve --help` lists the settings.",
)


app.add_typer(worlds_command.app, name="worlds")


@app.callback()
def commands() -> None:
    """WorldPager's server."""


@app.command()
def serve(
    context: typer.Context,
    model: Annotated[Text, typer.Option(metavar="rooms|matrix-game-2", help="What draws.")] = None,
    worlds: Annotated[Text, typer.Option(metavar="DIR", help="Where worlds are kept.")] = None,
    host: Annotated[Text, typer.Option(help="Address to listen on; all but loopback need a token.")] = None,
    port: Annotated[Text, typer.Option(help="0: any free one.")] = None,
    gpu: Annotated[Text, typer.Option(metavar="BYTES", help="GPU tier; 10.22GB is 10^9, 10GiB is 2^30.")] = None,
    dram: Annotated[Text, typer.Option(metavar="BYTES", help="DRAM tier.")] = None,
    nvme: Annotated[Text, typer.Option(metavar="BYTES", help="NVMe tier, in the worlds folder.")] = None,
    kept: Annotated[Text, typer.Option(metavar="BYTES", help="States kept for going back; more lie on disk.")] = None,
    model_config: Annotated[Text, typer.Option(metavar="NAME|FILE", help="A configuration of the model.")] = None,
    weights: Annotated[Text, typer.Option(metavar="DIR", help="Where the model's weights are.")] = None,
    random_weights: Annotated[bool | None, typer.Option(help="Draw noise: for measuring without weights.")] = None,
    compile: Annotated[bool | None, typer.Option(help="matrix-game-2: torch.compile; a longer start.")] = None,  # noqa: A002 - a flag
    seed_image: Annotated[
        Text, typer.Option(metavar="FILE", help="New worlds begin with this PNG, JPEG, WebP.")
    ] = None,
    token: Annotated[Text, typer.Option(help="What clients must send. WORLDPAGER_TOKEN keeps it out of ps.")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Another name of this server.")] = None,
    autosave_s: Annotated[Text, typer.Option(metavar="SECONDS", help="How much a crash may lose.")] = None,
    threads: Annotated[
        Text, typer.Option(help="Of torch; default: 1, of rooms in float32 up to 4, of matrix-game-2 all cores.")
    ] = None,
    seed: Annotated[Text, typer.Option(help="Of new worlds whose client names none.")] = None,
    log_level: Annotated[Text, typer.Option(metavar="debug|info|warning|error")] = None,
    config: Annotated[Text, typer.Option(metavar="FILE", help="Settings as TOML.")] = None,
    print_config: Annotated[bool, typer.Option("--print-config", help="Show each value and its source.")] = False,  # noqa: FBT002 - a flag
) -> None:
    """Serve worlds over a WebSocket. Each setting is also a WORLDPAGER_* variable and a key of the TOML file."""
    flags = {name: value for name, value in context.params.items() if value not in (None, [], ())}
    flags.pop("print_config", None)
    try:
        loaded = load_settings(flags, os.environ)
        if print_config:
            typer.echo(loaded.describe())
            return
        make_worlds_folder(loaded)
    except SettingsError as error:
        typer.echo(f"The server did not start:\n{error}", err=True)
        raise typer.Exit(EXIT_SETTINGS) from error
    _run(loaded)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def play(context: typer.Context) -> None:
    """Start a server on a free port of this machine and a client in front of it. Arguments go to the client."""
    from server.play import play as play_both  # noqa: PLC0415 - only this command needs it

    raise typer.Exit(play_both(context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def plan(context: typer.Context) -> None:
    """Say what budgets hold and whether a drive keeps up, before anything runs. `plan --help` lists the flags."""
    from server.plan import main as plan_main  # noqa: PLC0415 - imports torch

    raise typer.Exit(plan_main(context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def doctor(context: typer.Context) -> None:
    """Say what a model needs and what this machine has. `doctor --help` lists the flags."""
    from server.doctor import main as doctor_main  # noqa: PLC0415 - imports torch

    raise typer.Exit(doctor_main(context.args))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def replay(context: typer.Context) -> None:
    """Draw a world's chunks again from its log and compare every frame. `replay --help` lists the flags."""
    from server.replay import main as replay_main  # noqa: PLC0415 - imports torch

    raise typer.Exit(replay_main(context.args))


def _run(loaded: Loaded) -> None:
    logging.basicConfig(
        level=loaded.settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    from server import app as web  # noqa: PLC0415 - slow to import, and only needed here

    try:
        failure = web.serve(loaded.settings, _start_engine)
    except web.CannotListen as error:
        typer.echo(f"The server did not start:\n{error}", err=True)
        raise typer.Exit(EXIT_SETTINGS) from error
    if failure:
        typer.echo(f"The server stopped: {failure}", err=True)
    _leave(EXIT_FAULT if failure else 0)


def _leave(code: int) -> None:
    """Exit; at once where the engine did not end in time: a half loaded model's threads abort an orderly exit."""
    if any(thread.name == "engine" and thread.is_alive() for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    raise typer.Exit(code)


def _start_engine(settings: Settings) -> "Engine":
    """Set torch's globals, here and nowhere else, and start the engine. Takes seconds: torch is imported."""
    # threads that spin while they wait for work take the core from the one that has it: 2 fps instead of 30, measured
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch  # noqa: PLC0415 - see above

    from server.load import make_engine, torch_threads  # noqa: PLC0415 - imports torch

    torch.set_num_threads(torch_threads(settings))
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("highest")  # or the exactness fingerprint would mean little
    return make_engine(settings)


def main() -> None:
    """Serve when the first argument is a flag or absent."""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "--help"):
        arguments = ["serve", *arguments]
    app(arguments, prog_name="python -m server")


if __name__ == "__main__":
    main()

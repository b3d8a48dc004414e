"""The ``runstate`` command. Each command imports what it needs, so ``--help`` is quick."""

import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.failure import Failure
from cli.program import EXAMPLE_TOOLS, Role, environment, python

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A self-hosted server for Assistants-style runs.",
)
runs = typer.Typer(no_args_is_help=True, help="Look at runs.")
app.add_typer(runs, name="runs")

calls = typer.Typer(no_args_is_help=True, help="Look at tool calls, and act on one.")
app.add_typer(calls, name="calls")

tools_ = typer.Typer(no_args_is_help=True, help="Look at tools, without a server.")
app.add_typer(tools_, name="tools")

DEFAULT_URL = "http://127.0.0.1:8010/v1"

Tools = Annotated[str, typer.Option(help="The Python module whose tools are served.")]
Url = Annotated[
    str,
    typer.Option(help="The server to ask.", envvar=["RUNSTATE_BASE_URL", "OPENAI_BASE_URL"]),
]


def main() -> None:
    """The entry point: what cannot be done is one sentence on stderr and exit code 1."""
    try:
        app()
    except Failure as problem:
        from cli.terminal import printable

        sys.exit(f"runstate: {printable(str(problem))}")


@app.command()
def dev(  # noqa: PLR0913
    *,
    port: Annotated[int, typer.Option(help="The port of the API.", min=1, max=65535)] = 8010,
    data: Annotated[Path, typer.Option(help="The data folder.")] = Path(".runstate"),
    workers: Annotated[int, typer.Option(help="Workers on each queue.", min=1)] = 2,
    tools: Tools = EXAMPLE_TOOLS,
    scripts: Annotated[
        Path | None,
        typer.Option(help="The folder of scripted models.", exists=True, file_okay=False),
    ] = None,
    run_ttl_s: Annotated[
        float | None, typer.Option(help="Runs expire after this many seconds.")
    ] = None,
    no_restart: Annotated[
        list[Role] | None, typer.Option(help="Leave these down when they die (repeatable).")
    ] = None,
) -> None:
    """Run everything on this machine: store, api, engine and workers."""
    from cli.dev import dev as run_dev
    from cli.stack import StackOptions

    options = StackOptions(
        home=data,
        port=port,
        workers=workers,
        tools=tools,
        scripts=scripts,
        run_ttl_s=run_ttl_s,
        not_restarted=frozenset(no_restart or ()),
    )
    _run(run_dev(options))


@app.command()
def demo(
    *,
    model: Annotated[
        str | None,
        typer.Option(help="A model of RUNSTATE_OPENAI_BASE_URL; otherwise scripted ones."),
    ] = None,
) -> None:
    """Play the QuietReads example from start to end in a temporary folder."""
    from cli.demo import demo as play

    if not _run(play(model)):
        raise typer.Exit(130)


@app.command()
def api() -> None:
    """Run one API process, as the RUNSTATE_ variables say."""
    _become("api")


@app.command()
def engine() -> None:
    """Run one engine process, as the RUNSTATE_ variables say."""
    _become("orchestrator.engine")


@app.command()
def worker(
    *,
    tools: Tools,
    count: Annotated[
        int, typer.Option("--count", "-n", help="Processes on each queue.", min=1)
    ] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Calls of async tools at once in each process. [default: 200]", min=1),
    ] = None,
) -> None:
    """Serve the tools of a module: processes on each of its queues."""
    from cli.worker import run_workers

    _run(run_workers(tools, count, concurrency))


@runs.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=100)] = 20,
    url: Url = DEFAULT_URL,
) -> None:
    """The newest runs."""
    from cli.client import Client, key_from_environment
    from cli.runs import list_runs

    _run(list_runs(Client(url, key_from_environment()), limit))


@runs.command()
def show(run_id: str, *, url: Url = DEFAULT_URL) -> None:
    """Why a run is where it is: its timeline, with tool calls and workers."""
    from cli.client import Client, key_from_environment
    from cli.runs import show_run

    _run(show_run(Client(url, key_from_environment()), run_id))


@runs.command()
def transcript(
    run_id: str,
    *,
    turn: Annotated[int, typer.Option(help="Which model turn, from 0.", min=0)],
    diff: Annotated[
        bool, typer.Option("--diff", help="Only what the turn before had not.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """What the model was shown in a turn, what was left out, and by which rule."""
    from cli.client import Client, key_from_environment
    from cli.transcript import show_transcript

    _run(show_transcript(Client(url, key_from_environment()), run_id, turn, is_diff=diff))


@runs.command()
def watch(run_id: str, *, url: Url = DEFAULT_URL) -> None:
    """What a run tells, from its beginning to its end, while it tells it."""
    from cli.client import Client, key_from_environment
    from cli.watch import watch_run

    _run(watch_run(Client(url, key_from_environment()), run_id))


@calls.command("list")
def list_calls(run_id: str, *, url: Url = DEFAULT_URL) -> None:
    """The tool calls of a run."""
    from cli.calls import list_calls as print_calls
    from cli.client import Client, key_from_environment

    _run(print_calls(Client(url, key_from_environment()), run_id))


@calls.command("show")
def show_call(run_id: str, call_id: str, *, url: Url = DEFAULT_URL) -> None:
    """Everything about a call, the whole output included."""
    from cli.calls import show_call as print_call
    from cli.client import Client, key_from_environment

    _run(print_call(Client(url, key_from_environment()), run_id, call_id))


@calls.command("cancel")
def cancel_call(run_id: str, call_id: str, *, url: Url = DEFAULT_URL) -> None:
    """Stop a call; the model is told, and the run goes on."""
    _act(url, run_id, call_id, "cancel", {})


@calls.command("fail")
def fail_call(run_id: str, call_id: str, message: str, *, url: Url = DEFAULT_URL) -> None:
    """Stop a call and tell the model that it failed, in these words."""
    _act(url, run_id, call_id, "fail", {"message": message})


@calls.command("resolve")
def resolve_call(run_id: str, call_id: str, output: str, *, url: Url = DEFAULT_URL) -> None:
    """Answer a call in the tool's place."""
    _act(url, run_id, call_id, "resolve", {"output": output})


@calls.command("approve")
def approve_call(
    run_id: str,
    call_id: str,
    *,
    arguments: Annotated[
        str | None, typer.Option(help="A JSON object, instead of what the model wrote.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Let a call that waits to be approved start."""
    from cli.calls import edited

    _act(url, run_id, call_id, "approve", edited(arguments))


@calls.command("reject")
def reject_call(
    run_id: str,
    call_id: str,
    reason: Annotated[str | None, typer.Argument(help="What the model is told.")] = None,
    *,
    url: Url = DEFAULT_URL,
) -> None:
    """Do not let a call that waits to be approved start; the model is told why."""
    _act(url, run_id, call_id, "reject", {} if reason is None else {"reason": reason})


@calls.command("requeue")
def requeue_call(run_id: str, call_id: str, *, url: Url = DEFAULT_URL) -> None:
    """Send an open call to the workers again, whatever its side effects."""
    _act(url, run_id, call_id, "requeue", {})


@tools_.command("lint")
def lint_tools(
    module: Annotated[str, typer.Argument(help="A module (shop.tools) or a file (tools.py).")],
    *,
    is_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """What would make models choose or call the tools wrongly. Exit code 1: there is something."""
    from cli.lint import lint_tools as print_findings

    _run(print_findings(module, is_json=is_json))


@app.command()
def queues(*, url: Url = DEFAULT_URL) -> None:
    """What waits on the queues, and what the workers do."""
    from cli.client import Client, key_from_environment
    from cli.queues import list_queues

    _run(list_queues(Client(url, key_from_environment())))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="JSON or JSON Lines.", exists=True, dir_okay=False)],
    *,
    url: Url = DEFAULT_URL,
) -> None:
    """Take assistants, threads and messages of another server, with their ids and times."""
    from cli.client import Client, key_from_environment
    from cli.migration import import_file

    _run(import_file(Client(url, key_from_environment()), file))


@app.command()
def export(*, url: Url = DEFAULT_URL) -> None:
    """Print all assistants, threads and messages as JSON Lines."""
    from cli.client import Client, key_from_environment
    from cli.migration import export_lines

    _run(export_lines(Client(url, key_from_environment())))


def _act(url: str, run_id: str, call_id: str, verb: str, body: dict[str, Any]) -> None:
    from cli.calls import act_on_call
    from cli.client import Client, key_from_environment

    _run(act_on_call(Client(url, key_from_environment()), run_id, call_id, verb, body))


def _run(command: Coroutine[object, object, None]) -> bool:
    from cli.interruption import run

    return run(command)


def _become(module: str) -> None:
    """Replaces this process, so that signals and the exit code are the module's own."""
    from cli.configuration import load_settings

    load_settings()  # says in one sentence what is wrong with them
    argv = python(module)
    os.execve(argv[0], argv, environment())  # noqa: S606


if __name__ == "__main__":
    main()

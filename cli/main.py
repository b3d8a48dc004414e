"""The ``runstate`` command. Each command imports what it needs, so ``--help`` is quick."""

import os
import sys
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.failure import Failure
from cli.program import Role, environment, python

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A self-hosted server for Assistants-style runs.",
)
runs = typer.Typer(no_args_is_help=True, help="Look at runs, and play one again.")
app.add_typer(runs, name="runs")

calls = typer.Typer(no_args_is_help=True, help="Look at tool calls, and act on one.")
app.add_typer(calls, name="calls")

tools_ = typer.Typer(no_args_is_help=True, help="Look at tools, without a server.")
app.add_typer(tools_, name="tools")


class Sums(StrEnum):
    """What ``runstate usage`` adds up."""

    TENANT = "tenant"
    MODEL = "model"
    DAY = "day"


DEFAULT_URL = "http://127.0.0.1:8010/v1"

Tools = Annotated[
    str | None,
    typer.Option(help="The Python module whose tools are served. [default: those of the app file]"),
]
Url = Annotated[
    str,
    typer.Option(help="The server to ask.", envvar=["RUNSTATE_BASE_URL", "OPENAI_BASE_URL"]),
]
Tenant = Annotated[
    str | None, typer.Option(help="Whose they are, by the name of its keys; for the operator.")
]


def main() -> None:
    """The entry point: what cannot be done is one sentence on stderr and an exit code."""
    try:
        app()
    except Failure as problem:
        from cli.terminal import printable

        print(f"runstate: {printable(str(problem))}", file=sys.stderr)
        sys.exit(problem.code)


@app.command()
def dev(  # noqa: PLR0913
    *,
    port: Annotated[
        int,
        typer.Option(help="The port of the API.", envvar="RUNSTATE_PORT", min=1, max=65535),
    ] = 8010,
    data: Annotated[Path, typer.Option(help="The data folder.")] = Path(".runstate"),
    workers: Annotated[int, typer.Option(help="Workers on each queue.", min=1)] = 2,
    app_file: Annotated[
        Path | None,
        typer.Option("--app", help="The app file. [default: ./runstate.yaml if it is there]"),
    ] = None,
    tools: Tools = None,
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
        app=app_file,
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
        typer.Option(help="A model that the settings can reach; otherwise scripted ones."),
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
    tools: Tools = None,
    count: Annotated[
        int, typer.Option("--count", "-n", help="Processes on each queue.", min=1)
    ] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Calls of async tools at once in each process. [default: 200]", min=1),
    ] = None,
) -> None:
    """Serve the tools of a module, or of the app file: processes on each of their queues."""
    from cli.worker import run_workers

    _run(run_workers(tools, count, concurrency))


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(help="The app file. [default: ./runstate.yaml]")
    ] = None,
) -> None:
    """Whether an app file is right: every mistake with its line, and exit code 1."""
    file = file or Path(os.environ.get("RUNSTATE_APP_FILE") or "runstate.yaml")
    argv = python("orchestrator.app_file", str(file))
    os.execve(argv[0], argv, environment())  # noqa: S606


@runs.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=100)] = 20,
    status: Annotated[str | None, typer.Option(help="Only these: failed, queued, …")] = None,
    thread: Annotated[str | None, typer.Option(help="Only those of this thread.")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """The newest runs."""
    from cli.client import Client, key_from_environment
    from cli.runs import list_runs

    _run(list_runs(Client(url, key_from_environment()), limit, status, thread))


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
def replay(  # noqa: PLR0913
    run_id: str,
    *,
    model: Annotated[str | None, typer.Option(help="Another model.")] = None,
    instructions: Annotated[
        Path | None, typer.Option(help="A file with other instructions.", dir_okay=False)
    ] = None,
    tools: Annotated[
        str | None, typer.Option(help="A module whose versions of the run's tools are shown.")
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete the replay.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Play a run again with the recorded outputs, up to the first difference. No tool is executed.

    Exit code 0: no difference, 1: a difference, 2: it cannot be played again.
    """
    from cli.client import Client, key_from_environment
    from cli.replay import Changes
    from cli.replay import replay as replay_run

    changes = Changes(model, instructions, tools)
    client = Client(url, key_from_environment())
    _compare(replay_run(client, run_id, changes, is_json=is_json, keep=keep))


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
def resolve_call(
    run_id: str,
    call_id: str,
    output: str,
    *,
    arguments: Annotated[
        str | None, typer.Option(help="A JSON object: what it answers, if not what was asked.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Answer a call in the tool's place."""
    from cli.calls import edited

    _act(url, run_id, call_id, "resolve", {"output": output} | edited(arguments))


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
def why(run_id: str, *, url: Url = DEFAULT_URL) -> None:
    """Why a run is where it is, in a sentence."""
    from cli.client import Client, key_from_environment
    from cli.runs import say_why

    _run(say_why(Client(url, key_from_environment()), run_id))


@app.command()
def queues(*, url: Url = DEFAULT_URL) -> None:
    """What waits on the queues, and what the workers do."""
    from cli.client import Client, key_from_environment
    from cli.queues import list_queues

    _run(list_queues(Client(url, key_from_environment())))


@app.command()
def usage(
    *,
    by: Annotated[Sums, typer.Option(help="What the sums are of.")] = Sums.TENANT,
    first: Annotated[
        str | None, typer.Option("--from", help="The first day: 2026-11-01. [30 days]")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="The last day. [today]")] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Tokens and costs, by tenant, model or day (UTC)."""
    from cli.client import Client, key_from_environment
    from cli.usage import show_usage

    _run(show_usage(Client(url, key_from_environment()), by, first, last))


@app.command("eval")
def eval_(  # noqa: PLR0913
    file: Annotated[Path, typer.Argument(help="The cases, in YAML.")],
    *,
    runs_: Annotated[
        int, typer.Option("--runs", "-n", help="How often each case is played.", min=1)
    ] = 1,
    parallel: Annotated[int, typer.Option(help="How many plays at once.", min=1, max=100)] = 4,
    model: Annotated[
        list[str] | None, typer.Option(help="Instead of the cases' own (repeatable).")
    ] = None,
    min_pass_rate: Annotated[
        float, typer.Option(help="The share of each case that must pass.", min=0, max=1)
    ] = 1.0,
    is_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Do not delete what has passed.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Play the cases of a file and compare what comes of them with what is expected.

    Exit code 0: all passed often enough, 1: some did not, 2: they could not be played.
    """
    from cli.client import Client, key_from_environment
    from cli.evaluation import Plan, evaluate

    plan = Plan(runs_, parallel, tuple(model or ()), min_pass_rate, keep)
    _compare(evaluate(Client(url, key_from_environment()), file, plan, is_json=is_json))


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="JSON or JSON Lines.", exists=True, dir_okay=False)],
    *,
    tenant: Tenant = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Take assistants, threads and messages of another server, with their ids and times."""
    from cli.client import Client, key_from_environment
    from cli.migration import import_file

    _run(import_file(Client(url, key_from_environment()), file, tenant))


@app.command()
def export(*, tenant: Tenant = None, url: Url = DEFAULT_URL) -> None:
    """Print all assistants, threads and messages as JSON Lines."""
    from cli.client import Client, key_from_environment
    from cli.migration import export_lines

    _run(export_lines(Client(url, key_from_environment()), tenant))


def _act(url: str, run_id: str, call_id: str, verb: str, body: dict[str, Any]) -> None:
    from cli.calls import act_on_call
    from cli.client import Client, key_from_environment

    _run(act_on_call(Client(url, key_from_environment()), run_id, call_id, verb, body))


def _compare(command: Coroutine[object, object, None]) -> None:
    """As ``_run``, with code 2 for what cannot be done: 1 says that something is not as it was."""
    try:
        is_done = _run(command)
    except Failure as problem:
        problem.code = 2
        raise
    if not is_done:
        raise typer.Exit(130)


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

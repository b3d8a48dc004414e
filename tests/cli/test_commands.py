"""The command itself: quick to help, and one sentence for everything that cannot be done."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cli.folder import DataFolder

NEEDED_LATER = ("fastapi", "httpx2", "openai", "pydantic", "redis", "rq", "transitions")


class Answers(BaseHTTPRequestHandler):
    """A server that is not ours, or does not want us: the path says how it answers."""

    def do_GET(self) -> None:
        status, body = {
            "/locked": (401, b'{"error": {"message": "secret details"}}'),
            "/gone": (404, b'{"error": {"message": "No run has the id run_x."}}'),
            "/broken": (502, b"<html>bad gateway</html>"),
        }.get(self.path.removesuffix("/ops/queues"), (200, b"<html>hello</html>"))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def runstate(
    *args: str, settings: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *args],
        env={**os.environ, **(settings or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def refusal(*args: str, settings: Mapping[str, str] | None = None, code: int = 1) -> str:
    """The one sentence on stderr of a command that failed."""
    done = runstate(*args, settings=settings)
    assert done.returncode == code
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line


def test_help_imports_nothing_slow() -> None:
    source = (
        "import sys, cli.main, typer.testing;"
        "print(typer.testing.CliRunner().invoke(cli.main.app, ['--help']).exit_code);"
        f"print(*set({NEEDED_LATER}) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=True)
    assert done.stdout.split() == [b"0"]


def test_a_wrong_option_is_a_usage_error() -> None:
    assert runstate("dev", "--port", "99999").returncode == 2


@pytest.mark.parametrize("command", [("api",), ("engine",), ("worker", "--tools", "x"), ("dev",)])
def test_a_wrong_setting_is_named(command: tuple[str, ...]) -> None:
    said = refusal(*command, settings={"RUNSTATE_MAX_TURNS": "many"}, code=os.EX_CONFIG)
    assert said.startswith("runstate: RUNSTATE_MAX_TURNS is wrong: ")


def test_a_setting_that_should_be_json_is_named() -> None:
    given = {"RUNSTATE_MODEL_ROUTES": "gpt-4: openai"}
    said = refusal("api", settings=given, code=os.EX_CONFIG)
    assert said == "runstate: RUNSTATE_MODEL_ROUTES is wrong: It is not JSON."


def test_the_wrong_part_of_a_setting_is_named_and_not_repeated() -> None:
    given = {"RUNSTATE_MODEL_ROUTES": '{"gpt-*": {"api": "openai", "key_variable": "sk-1234"}}'}
    said = refusal("engine", settings=given, code=os.EX_CONFIG)
    assert said.startswith("runstate: RUNSTATE_MODEL_ROUTES is wrong at gpt-*[0].key_variable: ")
    assert "sk-1234" not in said


def test_settings_that_do_not_go_together_are_told() -> None:
    given = {"RUNSTATE_API_URL": "http://runstate.internal", "RUNSTATE_WORKER_KEY": "secret"}
    said = refusal("worker", "--tools", "x", settings=given, code=os.EX_CONFIG)
    assert "a worker without RUNSTATE_REDIS_URL needs RUNSTATE_QUEUE_URL" in said


@pytest.mark.parametrize("is_setting", [True, False])
def test_a_busy_port_is_named_before_anything_starts(tmp_path: Path, is_setting: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        options, settings = ([], {"RUNSTATE_PORT": port}) if is_setting else (["--port", port], {})
        done = runstate("dev", *options, "--data", str(tmp_path), settings=settings)
    assert done.returncode == 1
    assert f"runstate: Port {port} cannot be used (Address already in use)" in done.stderr
    assert not (tmp_path / "store").exists()


def test_a_folder_in_use_is_refused_and_left_in_peace(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.opened():
        folder.write_processes({"store": None, "api": os.getpid(), "engine": [], "workers": []})
        assert "Another runstate dev uses" in refusal("dev", "--data", str(tmp_path))
        assert folder.read_processes()["api"] == os.getpid()


def test_a_model_for_the_demo_needs_an_endpoint() -> None:
    assert "set RUNSTATE_OPENAI_BASE_URL" in refusal("demo", "--model", "some-model")
    assert "set RUNSTATE_ANTHROPIC_BASE_URL" in refusal("demo", "--model", "claude-x")


def test_a_server_that_does_not_answer_is_named() -> None:
    url = "http://127.0.0.1:1/v1"
    said = refusal("queues", settings={"OPENAI_BASE_URL": url})
    assert said.startswith("runstate: http://127.0.0.1:1 does not answer")
    assert "runstate dev" in said


def test_our_own_variable_wins_over_that_of_the_sdk() -> None:
    settings = {"OPENAI_BASE_URL": "http://127.0.0.1:1", "RUNSTATE_BASE_URL": "http://127.0.0.1:2"}
    assert "http://127.0.0.1:2 does not answer" in refusal("queues", settings=settings)


def test_a_refused_key_is_said_without_the_key(stranger: str) -> None:
    said = refusal(
        "queues", "--url", f"{stranger}/locked", settings={"RUNSTATE_API_KEY": "sk-very-secret"}
    )
    assert "set RUNSTATE_API_KEY" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/gone", "runstate: No run has the id run_x."),
        ("/broken", "was answered with 502"),
        ("/else", "is not a Runstate server"),
    ],
)
def test_what_the_server_refuses_is_said(stranger: str, path: str, sentence: str) -> None:
    assert sentence in refusal("queues", "--url", stranger + path)


def test_what_cannot_be_compared_is_another_code_than_what_differs(tmp_path: Path) -> None:
    nobody = {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    replayed = runstate("runs", "replay", "run_x", settings=nobody)
    assert (replayed.returncode, replayed.stdout) == (2, "")
    assert replayed.stderr.startswith("runstate: http://127.0.0.1:1 does not answer")
    (tmp_path / "eval.yaml").write_text("cases: 3")
    evaluated = runstate("eval", str(tmp_path / "eval.yaml"), settings=nobody)
    assert (evaluated.returncode, evaluated.stdout) == (2, "")
    assert f"{tmp_path / 'eval.yaml'}:1: cases: " in evaluated.stderr

"""The example's client, which is nothing but the official SDK, against a whole server; and
what an operator does with what it leaves there.
"""

import os
import subprocess
import sys


def run(base_url: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """A Python module with its arguments, as a client of the server."""
    told = {**os.environ, "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "any"}
    argv = [sys.executable, "-m", *command]
    return subprocess.run(argv, env=told, capture_output=True, text=True, check=False)


def test_the_client_plays_the_conversation_with_the_sdk_alone(base_url: str) -> None:
    played = run(base_url, "examples.quietreads")
    assert (played.returncode, played.stderr) == (0, "")
    assert played.stdout.count("\nyou ") == 3
    assert "The Tartar Steppe by Dino Buzzati" in played.stdout
    assert "The Invention of Morel by Adolfo Bioy Casares" in played.stdout
    assert "The scene on the pier undid me." in played.stdout


def test_the_suite_passes_and_a_run_can_be_replayed(base_url: str) -> None:
    run(base_url, "examples.quietreads")
    run_id = run(base_url, "cli.main", "runs", "list").stdout.splitlines()[3].split()[0]
    replayed = run(base_url, "cli.main", "runs", "replay", run_id)
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout.endswith("\nNo difference.\n")
    suite = run(base_url, "cli.main", "eval", "examples/quietreads/eval.yaml", "--runs", "2")
    assert (suite.returncode, suite.stderr) == (0, "")
    assert suite.stdout.count(" 2/2 ") == 2

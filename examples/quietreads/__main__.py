"""Plays the conversation against a running server: ``python -m examples.quietreads``.

The SDK reads the server's address from ``OPENAI_BASE_URL`` and the key from ``OPENAI_API_KEY``.
"""

import argparse
import sys
import warnings

from openai import OpenAI

from examples.quietreads.conversation import ASSISTANT, QUESTIONS


def main() -> None:
    """Ask every question on one thread and print what the assistant says."""
    parser = argparse.ArgumentParser(prog="python -m examples.quietreads")
    parser.add_argument("--model", help="a model of your endpoint; default: the scripted ones")
    chosen: str | None = parser.parse_args().model
    warnings.simplefilter("ignore", DeprecationWarning)  # the SDK says it at every call

    client = OpenAI()
    assistant = next(
        (found for found in client.beta.assistants.list() if found.name == ASSISTANT), None
    )
    if assistant is None:
        sys.exit(
            f"The server has no assistant {ASSISTANT}: give it the runstate.yaml of this folder."
        )
    thread = client.beta.threads.create()
    for question, scripted in QUESTIONS:
        print(f"\nyou         {question}")
        client.beta.threads.messages.create(thread.id, role="user", content=question)
        run = client.beta.threads.runs.create_and_poll(
            thread_id=thread.id, assistant_id=assistant.id, model=chosen or scripted
        )
        if run.status != "completed":
            reason = run.last_error.message if run.last_error else "no more is known"
            sys.exit(f"{run.id} is {run.status}: {reason}")
        for message in client.beta.threads.messages.list(thread.id, run_id=run.id, order="asc"):
            for part in message.content:
                if part.type == "text":
                    print(f"quietreads  {part.text.value}")
                elif part.type == "refusal":
                    print(f"quietreads  {part.refusal}")


if __name__ == "__main__":
    main()

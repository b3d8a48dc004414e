"""``runstate dev``: everything on this machine, with nothing to install first."""

import asyncio
from typing import Final

from cli.program import Program
from cli.stack import Stack, StackOptions, running_stack
from cli.terminal import say

FOLLOW_S: Final = 0.2


async def dev(options: StackOptions) -> None:
    """Runs the stack until it is cancelled, and shows what the processes write."""
    async with running_stack(options) as stack:
        print(_addresses(stack), flush=True)
        try:
            await asyncio.gather(*(_follow(child.program) for child in stack.supervisor.children))
        finally:
            say("stopping api, engine, workers and store")


def _addresses(stack: Stack) -> str:
    options = stack.options
    key = "one-of-RUNSTATE_API_KEYS" if stack.key else "any"
    return f"""
  API      {stack.root_url}/v1
  Pages    {stack.root_url}/ops/ui
  Docs     {stack.root_url}/docs
  Store    {stack.store_address}
  App      {stack.app or "no app file"}
  Tools    {options.tools or "those of the app file"}, {options.workers} workers on each queue
  Logs     {stack.folder.home / "logs"}

  export OPENAI_BASE_URL={stack.root_url}/v1
  export OPENAI_API_KEY={key}

  Ctrl-C stops all of it; the data stays in {stack.folder.home}.
"""


async def _follow(program: Program) -> None:
    """Prints what is written from now on, with a label. The process does not depend on us here."""
    if program.log is None:
        return
    with program.log.open(errors="replace") as lines:
        lines.seek(0, 2)
        while True:
            for line in lines:
                say(line.rstrip(), program.name)
            await asyncio.sleep(FOLLOW_S)

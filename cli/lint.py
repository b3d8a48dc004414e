"""``runstate tools lint``: what would make models choose or call the tools of a module wrongly."""

import json

from cli.program import environment
from cli.terminal import printable
from cli.worker import ask_about


async def lint_tools(tools: str, *, is_json: bool) -> None:
    """Prints the findings. Exits with code 1 if there are any."""
    findings = await ask_about(tools, "--lint", environment())
    if is_json:
        print(json.dumps(findings, ensure_ascii=False, indent=2))
    elif not findings:
        print("Nothing to improve.")
    else:
        for finding in findings:
            print(printable(f"{finding['tool']}: {finding['rule']}"))
            print(printable(f"    {finding['reason']}"))
            print(printable(f"    Better: {finding['example']}"))
    if findings:
        raise SystemExit(1)

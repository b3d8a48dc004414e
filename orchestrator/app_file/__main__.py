"""``python -m orchestrator.app_file FILE``: whether the file is right. Exit code 1: it is not."""

import sys
from pathlib import Path

from orchestrator.app_file.app import App
from orchestrator.app_file.reader import AppFileInvalid, load_app


def main() -> None:
    """Say what the file has, or all that is wrong with it."""
    path = Path(sys.argv[1])
    try:
        app = load_app(path)
    except AppFileInvalid as error:
        sys.exit(str(error))
    sys.stdout.write(f"{path} is right: {_summary(app)}.\n")


def _summary(app: App) -> str:
    """Such as ``1 assistant, 6 tools, 1 tool switched off, 4 guardrails``."""
    file = app.file
    off = {name for name, tool in file.tools.items() if not tool.enabled}
    counts = {
        "assistant{s}": len(file.assistants),
        "tool{s}": len({*app.tools, *file.tools} - off),
        "tool{s} switched off": len(off),
        "model route{s}": len(file.models.routes),
        "price{s}": len(file.models.prices),
        "guardrail{s}": len(file.guardrails),
        "limit{s}": len(file.limits.model_fields_set),
    }
    parts = (f"{n} {what.format(s='' if n == 1 else 's')}" for what, n in counts.items() if n)
    return ", ".join(parts) or "it says nothing"


if __name__ == "__main__":
    main()

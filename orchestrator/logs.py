"""Logs of every process, to standard error: ids and figures, never texts, arguments or keys."""

import logging
import sys

import structlog
from structlog.typing import Processor

from orchestrator.settings import Settings

_SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)


def configure_logs(settings: Settings) -> None:
    """Send our own logs and those of the libraries through one formatter. Call once per process."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=list(_SHARED), processors=_renderers(settings)
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.log_level)
    for noisy in ("httpx2", "httpcore2", "openai", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _renderers(settings: Settings) -> list[Processor]:
    """Tracebacks without local variables: these hold keys, arguments and outputs."""
    drop_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    if settings.log_json:
        return [
            drop_meta,
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(),
        ]
    console = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    return [drop_meta, console]

"""From a template and what it shows to a page."""

import datetime as dt
import json
import re
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from orchestrator.story.words import counted, duration, one_line

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Nothing of another server, nothing inside the page that is executed, even if the escaping failed,
and nothing kept by a browser that several people use.
"""


_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""Control characters, and those that turn the direction of the text around them."""


def page(template: str, http_status: int = 200, /, **shown: Any) -> Response:
    """The page. Everything shown is escaped."""
    text = _TEMPLATES.get_template(template).render(**shown)
    return HTMLResponse(text, http_status, HEADERS)


def moment(time_ms: int) -> str:
    """``2026-11-30 12:40:05``, of UTC."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def machine_time(time_ms: int) -> str:
    """The same for programs."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")


def milliseconds(time_ms: float | None) -> str:
    """A duration: ``8 ms``, ``3.2 s``, ``12 min``."""
    return duration(None if time_ms is None else time_ms / 1000)


def money(dollars: float | None) -> str:
    """``$0.0042``; what is not known is said to be."""
    if dollars is None:
        return "unknown"
    return f"${dollars:,.2f}" if dollars >= 100 or dollars == 0 else f"${dollars:.4f}"


def number(value: int) -> str:
    """``12,345``."""
    return f"{value:,}"


def pretty(text: str) -> str:
    """JSON with line breaks; anything else as it is."""
    try:
        return as_json(json.loads(text))
    except ValueError:
        return text


def as_json(value: Any) -> str:
    """A JSON value with line breaks."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _visible(value: Any) -> Any:
    """A text in which all can be seen: such characters are written out."""
    if type(value) is not str:  # markup is another type
        return value
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", value)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("api.pages"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        moment,
        machine_time,
        milliseconds,
        money,
        number,
        pretty,
        as_json,
        one_line,
        counted,
    )
    environment.filters |= {use.__name__: use for use in filters}
    return environment


_TEMPLATES: Final = _environment()

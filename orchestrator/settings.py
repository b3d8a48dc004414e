"""The only reader of the environment. Each entry point builds one ``Settings`` and passes it down.

Every variable is named ``RUNSTATE_`` plus the field's name in capitals. What the app file says of a
setting counts where the environment says nothing. The table in docs/production.md is made from the
descriptions here.
"""

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FilePath,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from orchestrator.commands import IfBusy
from orchestrator.records import Price

YEAR_S: Final = 31_536_000
"""No time is longer: what is meant to last for ever is a mistake, and overflows somewhere."""

Seconds = Annotated[float, Field(le=YEAR_S)]


class ModelRoute(BaseModel):
    """Where models are asked. Without ``base_url``: where ``RUNSTATE_OPENAI_…`` or
    ``RUNSTATE_ANTHROPIC_…`` say.

    ``key_variable`` names the environment variable that holds the key; ``model`` is what the model
    is called there, if not as in the run. ``context_tokens`` is the model's window: what does not
    fit is left out by the run's truncation strategy. ``max_output_tokens`` caps one answer
    (Anthropic's API demands a cap).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    api: Literal["openai", "anthropic", "scripted"]
    base_url: str | None = None
    key_variable: str | None = Field(None, pattern=r"^[A-Za-z_]\w*$")
    model: str | None = None
    context_tokens: int | None = Field(None, ge=1)
    max_output_tokens: int = Field(8_192, ge=1)

    @property
    def key(self) -> SecretStr | None:
        """The value of ``key_variable``."""
        found = os.environ.get(self.key_variable or "")  # noqa: TID251 (settings read it)
        return SecretStr(found) if found else None


def _listed(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


Routes = Annotated[tuple[ModelRoute, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One route, or several: the following ones are asked when the one before has failed."""


TENANT_NAME = "[A-Za-z0-9_.-]{1,64}"
"""A regular expression."""

_NAMED_KEY = re.compile(f"({TENANT_NAME})=(.*[^=].*)")
_NAMELESS_KEY = re.compile("[^=]+|[^=]{22,}={1,2}")
"""Base64 of 16 bytes or more may end in ``=``. What is shorter is a name without its key: a mistake
must not become a key that opens everything.
"""


def _known_scheme(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("a URL of redis://, rediss:// or unix:// is wanted")
    return url


StoreUrl = Annotated[SecretStr, AfterValidator(_known_scheme)]

LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(str.upper)]


class ApiKey(BaseModel):
    """A key of clients, and the tenant it opens; ``None``: it is the operator's, and opens all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: SecretStr
    tenant: str | None = None


class WorkerKey(BaseModel):
    """A key of workers without a store, and the tools that it is good for (``*``: all)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: SecretStr
    tools: frozenset[str]

    def serves(self, tool: str) -> bool:
        """Whether it is good for this tool."""
        return tool in self.tools or "*" in self.tools


class Settings(BaseSettings):
    """What an operator may decide. Names end in their unit; defaults suit one small machine."""

    model_config = SettingsConfigDict(
        env_prefix="RUNSTATE_",
        env_ignore_empty=True,
        allow_inf_nan=False,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    app_file: Path | None = Field(
        None, description="The application's own file, `runstate.yaml` (docs/app-file.md)."
    )
    redis_url: StoreUrl = Field(
        SecretStr("redis://127.0.0.1:6379/0"),
        description="The state store: Valkey 7.2 or newer, or Redis 7.0 or newer.",
    )
    queue_url: StoreUrl | None = Field(
        None, description="The server of the RQ queues. Default: the state store."
    )
    key_prefix: str = Field("rs", description="What every key of the state begins with.")
    partitions: int = Field(
        16, ge=1, le=1024, description="Partitions of the state. Fixed by the first start."
    )
    host: str = Field("127.0.0.1", description="The address that the API listens on.")
    port: int = Field(8010, ge=0, le=65535, description="The port that the API listens on.")
    tls_certificate: FilePath | None = Field(
        None, description="The PEM file of a certificate: the API serves https with it."
    )
    tls_key: FilePath | None = Field(
        None, description="The PEM file of its key, if that is not in the same file."
    )
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode] = Field(
        (),
        description="Keys of clients, with commas between. One with the name of a tenant, as in"
        " `library=KEY`, opens what was made under that name; one without opens everything. Without"
        " any, only loopback is served.",
    )
    worker_keys: Annotated[tuple[WorkerKey, ...], NoDecode] = Field(
        (),
        description="Keys of workers without a store, each with its tools:"
        " `KEY:tool1\\|tool2,KEY2:*`.",
    )
    api_url: str | None = Field(
        None,
        description="Where a worker without `RUNSTATE_REDIS_URL` finds the API:"
        " `https://runstate.internal`.",
    )
    worker_key: SecretStr | None = Field(
        None, description="That worker's key: one of the API's `RUNSTATE_WORKER_KEYS`."
    )
    replay_window_s: Seconds = Field(
        60.0,
        gt=0,
        description="An SDK's repetition of a request is known for so many seconds; where a thread"
        " is meant, for ten minutes more, and a deletion for a day.",
    )
    idempotency_ttl_s: Seconds = Field(
        86_400.0, gt=0, description="An Idempotency-Key is remembered for so many seconds."
    )
    run_ttl_s: Seconds = Field(
        600.0, gt=0, description="A run expires this many seconds after its creation."
    )
    max_turns: int = Field(50, ge=1, description="Model turns per run; one more fails the run.")
    max_tool_calls: int = Field(
        500, ge=1, description="Tool calls per run; one more fails the run."
    )
    max_repeated_calls: int = Field(
        20,
        ge=1,
        description="Calls per run of one tool with the same arguments; one more fails it.",
    )
    max_total_tokens: int | None = Field(
        None, ge=1, description="Tokens of prompts and answers per run, as providers count them."
    )
    max_cost_usd: float | None = Field(
        None, gt=0, description="What a run may cost. A model without a price has no such limit."
    )
    model_prices: dict[str, Price] = Field(
        {}, description="JSON: dollars per million tokens (docs/models.md)."
    )
    if_busy: IfBusy = Field(
        IfBusy.REJECT,
        description="Runs and messages for a thread that has an active run: reject, enqueue,"
        " interrupt or rollback, unless the request says which.",
    )
    turn_lease_s: Seconds = Field(
        15.0, gt=0, description="An engine silent for this many seconds loses its turn."
    )
    call_lease_s: Seconds = Field(
        10.0, gt=0, description="A worker silent for this many seconds loses its call."
    )
    cancel_watchdog_s: Seconds = Field(
        5.0, gt=0, description="Cancelling is confirmed after this many seconds without an engine."
    )
    unserved_after_s: Seconds = Field(
        60.0, gt=0, description="A call whose queue has no worker is answered with an error then."
    )
    worker_grace_s: Seconds = Field(
        80.0, ge=0, description="On SIGTERM, this many seconds for a worker's calls to end."
    )
    worker_memory_mb: int | None = Field(
        None, ge=1, description="Memory that a forked call may take, beside what is loaded (Linux)."
    )
    worker_max_calls: int | None = Field(
        None, ge=1, description="After so many calls a worker process ends, and another is started."
    )
    inline_concurrency: int = Field(
        200, ge=1, description="Calls that one worker of async tools has under way at once."
    )
    engine_concurrency: int = Field(
        1000, ge=1, description="Model turns that one engine has under way at once."
    )
    shutdown_grace_s: Seconds = Field(
        10.0, ge=0, description="On SIGTERM, this many seconds to finish what is under way."
    )
    model_max_retries: int = Field(
        2, ge=0, description="Repetitions of a failed model call (429, 5xx, broken connections)."
    )
    model_connect_timeout_s: Seconds = Field(
        10.0, gt=0, description="A connection to a model is made within so many seconds or fails."
    )
    model_first_token_timeout_s: Seconds = Field(
        120.0, gt=0, description="A model that has said nothing after so many seconds has failed."
    )
    model_timeout_s: Seconds = Field(
        120.0, gt=0, description="A model silent for this many seconds in between has failed."
    )
    model_total_timeout_s: Seconds = Field(
        600.0, gt=0, description="A model that has not ended its answer after so many has failed."
    )
    delta_batch_ms: int = Field(
        20,
        ge=0,
        le=10_000,
        description="What a model says in so many milliseconds is logged together.",
    )
    event_retention_s: Seconds = Field(
        86_400.0, gt=0, description="The event log of a run is kept this long after its end."
    )
    keep_alive_s: Seconds = Field(
        15.0, gt=0, description="A stream that is silent for so many seconds sends a comment line."
    )
    openai_base_url: str | None = Field(
        None, description="The OpenAI-compatible endpoint for all models without another route."
    )
    openai_api_key: SecretStr | None = Field(None, description="Its key.")
    anthropic_base_url: str | None = Field(
        None, description="The endpoint for models named claude-…, if not the official one."
    )
    anthropic_api_key: SecretStr | None = Field(None, description="Its key.")
    model_routes: dict[str, Routes] = Field(
        {}, description="JSON: which models are asked where (docs/models.md)."
    )
    scripts_dir: Path | None = Field(
        None, description="The folder of NAME.yaml for models named scripted/NAME."
    )
    tool_retention_s: int = Field(
        86_400,
        ge=1,
        le=YEAR_S,
        description="A tool whose workers are silent that long is the client's again.",
    )
    log_level: LogLevel = Field("INFO", description="DEBUG, INFO, WARNING or ERROR.")
    log_json: bool = Field(False, description="Logs as JSON lines.")

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: Any, **named: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """As ever, and the app file last."""
        known = super().settings_customise_sources(settings_cls, *sources, **named)
        return (*known, _AppFileSource(settings_cls))

    @field_validator("api_keys", mode="before")
    @classmethod
    def _split_keys(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(_named(part.strip()) for part in value.split(",") if part.strip())
        return value

    @field_validator("api_keys")
    @classmethod
    def _are_keys_of_one(cls, keys: tuple[ApiKey, ...]) -> tuple[ApiKey, ...]:
        tenants = {key.secret.get_secret_value(): key.tenant for key in keys}
        if any(tenants[key.secret.get_secret_value()] != key.tenant for key in keys):
            raise ValueError("the same key is given twice, with two names or with and without one")
        return keys

    @field_validator("worker_keys", mode="before")
    @classmethod
    def _split_worker_keys(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.strip().rpartition(":") for part in value.split(",") if part.strip()]
        if not all(key and tools for key, _, tools in parts):
            raise ValueError("each key needs its tools after a colon: KEY:tool1|tool2, or KEY:*")
        return tuple({"secret": key, "tools": tools.split("|")} for key, _, tools in parts)

    @model_validator(mode="after")
    def _names_what_a_worker_needs(self) -> Self:
        """With half of it, a worker would be one of the store on its own host."""
        given = (self.api_url, self.worker_key)
        if "redis_url" not in self.model_fields_set and given != (None, None):
            if None in given:
                raise ValueError(
                    "RUNSTATE_API_URL and RUNSTATE_WORKER_KEY go together, unless there is a"
                    " RUNSTATE_REDIS_URL"
                )
            if self.queue_url is None:
                raise ValueError("a worker without RUNSTATE_REDIS_URL needs RUNSTATE_QUEUE_URL")
        return self

    @property
    def has_no_store(self) -> bool:
        """Whether this is a worker that reaches the ledger through the API alone."""
        has_key = self.api_url is not None and self.worker_key is not None
        return has_key and "redis_url" not in self.model_fields_set

    def limits_of_runs(self, model: str) -> dict[str, object]:
        """What operators allow a run of this model, as fields of its ``RunSpec``."""
        fitting = (
            price for pattern, price in self.model_prices.items() if fnmatchcase(model, pattern)
        )
        return {
            "max_turns": self.max_turns,
            "max_tool_calls": self.max_tool_calls,
            "max_repeated_calls": self.max_repeated_calls,
            "max_total_tokens": self.max_total_tokens,
            "max_cost_usd": self.max_cost_usd,
            "price": next(fitting, None),
        }

    @property
    def effective_queue_url(self) -> SecretStr:
        """Where RQ's queues are."""
        return self.queue_url or self.redis_url


class _AppFileSource(PydanticBaseSettingsSource):
    """What the app file says where nothing else does. Raises ``AppFileInvalid``."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """Not asked: all of them come at once."""
        raise NotImplementedError

    def __call__(self) -> dict[str, Any]:
        from orchestrator.app_file.reader import read_app_file  # which needs the classes here

        known = self.current_state
        if not known.get("app_file"):
            return {}
        path = Path(known["app_file"])
        values = read_app_file(path).settings(path.parent)
        return {name: value for name, value in values.items() if name not in known}


def _named(text: str) -> dict[str, str]:
    if named := _NAMED_KEY.fullmatch(text):
        return {"tenant": named[1], "secret": named[2].strip()}
    if _NAMELESS_KEY.fullmatch(text):
        return {"secret": text}
    raise ValueError(
        "a key with '=' is NAME=KEY, the name of 1 to 64 letters, digits, '.', '_' and '-', and"
        " the key not empty"
    )

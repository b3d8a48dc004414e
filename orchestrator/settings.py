"""The only reader of the environment. Each entry point builds one ``Settings`` and passes it down.

Every variable is named ``RUNSTATE_`` plus the field's name in capitals. The table in the README is
made from the descriptions here.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class Settings(BaseSettings):
    """What an operator may decide. Names end in their unit; defaults suit one small machine."""

    model_config = SettingsConfigDict(env_prefix="RUNSTATE_", frozen=True, extra="ignore")

    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379/0"),
        description="The state store: Valkey 7.2 or newer, or Redis 7.0 or newer.",
    )
    queue_url: SecretStr | None = Field(
        None, description="The server of the RQ queues. Default: the state store."
    )
    key_prefix: str = Field("rs", description="What every key of the state begins with.")
    partitions: int = Field(
        16, ge=1, le=1024, description="Partitions of the state. Fixed by the first start."
    )
    host: str = Field("127.0.0.1", description="The address that the API listens on.")
    port: int = Field(8010, ge=0, le=65535, description="The port that the API listens on.")
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        (),
        description="Keys of clients, with commas between. Without any, only loopback is served.",
    )
    run_ttl_s: float = Field(
        600.0, gt=0, description="A run expires this many seconds after its creation."
    )
    max_turns: int = Field(50, ge=1, description="Model turns per run; one more fails the run.")
    turn_lease_s: float = Field(
        15.0, gt=0, description="An engine silent for this many seconds loses its turn."
    )
    call_lease_s: float = Field(
        10.0, gt=0, description="A worker silent for this many seconds loses its call."
    )
    cancel_watchdog_s: float = Field(
        5.0, gt=0, description="Cancelling is confirmed after this many seconds without an engine."
    )
    engine_concurrency: int = Field(
        1000, ge=1, description="Model turns that one engine has under way at once."
    )
    shutdown_grace_s: float = Field(
        10.0, ge=0, description="On SIGTERM, this many seconds to finish what is under way."
    )
    model_max_retries: int = Field(
        2, ge=0, description="Repetitions of a failed model call (429, 5xx, broken connections)."
    )
    model_timeout_s: float = Field(
        120.0, gt=0, description="A model silent for this many seconds has failed."
    )
    openai_base_url: str | None = Field(
        None, description="The OpenAI-compatible endpoint for all models not named scripted/…"
    )
    openai_api_key: SecretStr | None = Field(None, description="Its key.")
    scripts_dir: Path | None = Field(
        None, description="The folder of NAME.yaml for models named scripted/NAME."
    )
    tool_retention_s: int = Field(
        86_400, ge=1, description="A tool whose workers are silent that long is the client's again."
    )
    log_level: str = Field("INFO", description="DEBUG, INFO, WARNING or ERROR.")
    log_json: bool = Field(False, description="Logs as JSON lines.")

    @field_validator("api_keys", mode="before")
    @classmethod
    def _split_keys(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @property
    def effective_queue_url(self) -> SecretStr:
        """Where RQ's queues are."""
        return self.queue_url or self.redis_url

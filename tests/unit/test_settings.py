"""What operators may write, and what is refused with a reason."""

import pytest
from pydantic import SecretStr, ValidationError

from orchestrator.settings import Settings

REMOTE = {"api_url": "https://runstate.internal", "worker_key": SecretStr("secret")}


def test_keys_of_workers_name_their_tools() -> None:
    keys = Settings.model_validate({"worker_keys": "one:add|sub, two:2:*,"}).worker_keys
    assert [key.secret.get_secret_value() for key in keys] == ["one", "two:2"]
    assert [[key.serves(tool) for tool in ("add", "mul")] for key in keys] == [
        [True, False],
        [True, True],
    ]


@pytest.mark.parametrize("written", ["secret", "secret:", ":add"])
def test_a_key_without_tools_is_refused(written: str) -> None:
    with pytest.raises(ValidationError, match="each key needs its tools") as error:
        Settings.model_validate({"worker_keys": written})
    assert "secret" not in str(error.value)


def test_a_worker_has_no_store_if_it_is_given_the_api_and_a_key_instead() -> None:
    queue = {"queue_url": SecretStr("redis://queues")}
    assert Settings.model_validate(REMOTE | queue).has_no_store
    store = {"redis_url": SecretStr("redis://store")}
    assert not Settings.model_validate(REMOTE | queue | store).has_no_store
    assert not Settings.model_validate({"api_url": REMOTE["api_url"]}).has_no_store


def test_a_worker_without_a_store_needs_the_queues() -> None:
    with pytest.raises(ValidationError, match="needs RUNSTATE_QUEUE_URL"):
        Settings.model_validate(REMOTE)

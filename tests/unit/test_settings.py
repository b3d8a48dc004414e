"""What operators may write, and what is refused with a reason."""

import pytest
from pydantic import SecretStr, ValidationError

from orchestrator.settings import Settings

REMOTE = {"api_url": "https://runstate.internal", "worker_key": SecretStr("secret")}


def test_keys_of_clients_may_have_the_name_of_their_tenant() -> None:
    base64 = "c2l4dGVlbiBieXRlcyBpdHM=="
    text = f"plain, library=one==,a.b-c= two,{base64},"
    keys = Settings.model_validate({"api_keys": text}).api_keys
    assert [(key.tenant, key.secret.get_secret_value()) for key in keys] == [
        (None, "plain"),
        ("library", "one=="),
        ("a.b-c", "two"),
        (None, base64),
    ]


@pytest.mark.parametrize("keys", ["a=s3cret,b=s3cret", "s3cret,b=s3cret"])
def test_a_key_of_two_tenants_is_refused_without_being_told(keys: str) -> None:
    with pytest.raises(ValidationError, match="the same key is given twice") as refused:
        Settings.model_validate({"api_keys": keys})
    assert "s3cret" not in str([error["msg"] for error in refused.value.errors()])


@pytest.mark.parametrize(
    "mistake",
    ["=key", "a|b=key", "a b=key", "shop =key", f"{'a' * 65}=key", "ä=key", "shop=", "shop==", "="],
)
def test_a_mistake_in_a_named_key_does_not_make_it_the_operators(mistake: str) -> None:
    with pytest.raises(ValidationError, match="a key with '=' is NAME=KEY"):
        Settings.model_validate({"api_keys": f"plain,{mistake}"})


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


@pytest.mark.parametrize("name", REMOTE)
def test_the_api_and_the_key_of_a_worker_go_together_unless_there_is_a_store(name: str) -> None:
    half = {name: REMOTE[name]}
    with pytest.raises(ValidationError, match="RUNSTATE_API_URL and RUNSTATE_WORKER_KEY go to"):
        Settings.model_validate(half)
    assert not Settings.model_validate(half | {"redis_url": "redis://store"}).has_no_store


def test_a_worker_without_a_store_needs_the_queues() -> None:
    with pytest.raises(ValidationError, match="needs RUNSTATE_QUEUE_URL"):
        Settings.model_validate(REMOTE)


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APP_FILE", "REDIS_URL", "QUEUE_URL", "MAX_COST_USD", "API_KEYS", "MODEL_ROUTES"):
        monkeypatch.setenv(f"RUNSTATE_{name}", "")
    settings = Settings()
    assert (settings.app_file, settings.queue_url, settings.max_cost_usd) == (None, None, None)
    assert "redis_url" not in settings.model_fields_set


def test_no_limit_is_infinite() -> None:
    with pytest.raises(ValidationError, match="a finite number"):
        Settings.model_validate({"run_ttl_s": "inf"})


def test_no_time_is_longer_than_a_year() -> None:
    names = [name for name in Settings.model_fields if name.endswith("_s")]
    assert len(names) > 15
    for name in names:
        with pytest.raises(ValidationError, match=rf"{name}\n.*less than or equal to 31536000"):
            Settings.model_validate({name: "1e300" if name != "tool_retention_s" else 10**300})
    assert Settings.model_validate({"run_ttl_s": 31_536_000}).run_ttl_s == 31_536_000
    with pytest.raises(ValidationError, match="greater than 0"):
        Settings.model_validate({"run_ttl_s": 0})


@pytest.mark.parametrize("url", ["secret", "http://:secret@store:6379"])
def test_a_store_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="rediss:// or unix:// is wanted") as error:
        Settings.model_validate({"queue_url": url})
    assert "secret" not in str(error.value)


def test_a_log_level_is_one_of_four_however_it_is_written() -> None:
    assert Settings.model_validate({"log_level": "debug"}).log_level == "DEBUG"
    with pytest.raises(ValidationError, match="'DEBUG', 'INFO', 'WARNING' or 'ERROR'"):
        Settings.model_validate({"log_level": "loud"})

"""The pages in Debian's Chromium: they stay up to date, and execute nothing of strangers."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from openai import AsyncOpenAI
from openai.types.beta.threads import Run
from playwright.async_api import Browser, Page, async_playwright, expect
from pydantic import SecretStr

from orchestrator.settings import ApiKey, Settings
from tests.http.driver import Asked, Driver

KEY, KEY_OF_THE_LIBRARY = "key-without-a-name", "key-of-the-library"
HOSTILE = (
    "<script>document.title = 'executed'</script><img src=x onerror=\"document.title='executed'\">"
)

LONG = "3 m, or so. " * 200 + "No more."


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    keys = (
        ApiKey(secret=SecretStr(KEY)),
        ApiKey(secret=SecretStr(KEY_OF_THE_LIBRARY), tenant="library"),
    )
    return Settings(redis_url=redis_url, api_keys=keys)


@pytest.fixture
def client(client: AsyncOpenAI) -> AsyncOpenAI:
    return client.with_options(api_key=KEY_OF_THE_LIBRARY)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("this system has no chromium")
    expect.set_options(timeout=20_000)
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-background-networking"]
        browser = await playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        await browser.close()


@asynccontextmanager
async def opened(
    browser: Browser, address: str, path: str, *, has_scripts: bool = True
) -> AsyncIterator[Page]:
    """The page, read by somebody who has a key; nothing may go wrong on it, or be asked of another
    server.
    """
    context = await browser.new_context(
        http_credentials={"username": "any", "password": KEY}, java_script_enabled=has_scripts
    )
    problems: list[str] = []
    page = await context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(address) else problems.append(asked.url),
    )
    await page.goto(f"{address}/ops/ui{path}")
    yield page
    await context.close()
    assert problems == []


async def test_the_page_of_a_run_follows_it_to_its_end(
    browser: Browser, address: str, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(
        run, Asked("measure", '{"room": "hall"}'), workers=("measure",), text=HOSTILE
    )
    async with opened(browser, address, f"/runs/{run.id}") as page:
        why = page.get_by_role("status")
        await expect(why).to_contain_text("On the queue tools, for a worker")
        await page.locator(f"#call-{call_id} summary").click()
        await page.locator("#live").focus()
        await driver.works(run, call_id, LONG)
        await expect(why).to_contain_text("waits for an engine to take turn 1")
        await expect(page.locator("#live")).to_be_focused()
        await page.locator(f"#call-{call_id} details summary").click()
        await driver.answers(run, HOSTILE)
        await expect(why).to_contain_text("The model gave its answer")
        await expect(page.locator("#live")).to_have_count(0)
        await expect(page.locator(f"#call-{call_id} pre").last).to_have_text(LONG)
        await expect(page.locator(f"#call-{call_id} pre").last).to_be_visible()
        await expect(page.locator(".transcript pre").last).to_have_text(HOSTILE)
        assert await page.title() == f"completed · {run.id} · Runstate"


async def test_without_scripts_it_does_so_too(
    browser: Browser, address: str, driver: Driver, run: Run
) -> None:
    async with opened(browser, address, f"/runs/{run.id}", has_scripts=False) as page:
        why = page.locator(".why")
        await expect(why).to_contain_text("waits for an engine")
        await driver.answers(run, "Done")
        await expect(why).to_contain_text("The model gave its answer", timeout=15_000)


async def test_runs_are_found_by_their_id_and_by_status(
    browser: Browser, address: str, driver: Driver, run: Run
) -> None:
    async with opened(browser, address, "") as page:
        await page.get_by_role("link", name="queued").click()
        await page.get_by_role("link", name=run.id).click()
        await expect(page.get_by_role("heading", name=run.id)).to_be_visible()
        await page.get_by_role("link", name="Usage").click()
        await expect(page.get_by_text("No model has answered")).to_be_visible()
        await page.get_by_role("searchbox").fill(run.thread_id)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name=run.thread_id)).to_be_visible()

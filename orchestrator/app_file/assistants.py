"""The assistants of an app file, in the store: each one is there once, as the file has it."""

from contextlib import suppress
from hashlib import sha256

import structlog

from orchestrator.app_file.app import App
from orchestrator.errors import NotFound, StaleRevision
from orchestrator.records import DEFAULT_TENANT, EVERYBODY, Assistant, Json
from orchestrator.store import PageQuery, Store

log = structlog.get_logger(__name__)


async def keep_assistants(store: Store, app: App) -> None:
    """Write those that are new or not as the file has them. Processes that do so at the same time
    agree: what has no id yet gets one that is made from its name.
    """
    wanted = list(app.assistants())
    known = await _by_name(store) if wanted else {}
    for fields in wanted:
        await _keep(store, fields | {"tenant": EVERYBODY}, known.get(fields["name"]))


def id_of(name: str) -> str:
    """The id of an assistant that is made from the file."""
    return f"asst_{sha256(name.encode()).hexdigest()[:24]}"


async def _keep(store: Store, fields: Json, known: Assistant | None) -> None:
    if known is None:
        new = Assistant(id=id_of(fields["name"]), created_ms=await store.now_ms(), **fields)
        try:
            await store.put_assistant(new)
        except StaleRevision:  # somebody else was first
            known = await store.get_assistant(new.id)
        else:
            log.info("assistant.made", assistant=new.id, name=new.name)
            return
    wanted = Assistant(id=known.id, created_ms=known.created_ms, **fields)
    if wanted != known:
        changes = wanted.model_dump(exclude={"id", "created_ms"})  # defaults come back
        with suppress(NotFound):  # somebody has deleted it just now
            await store.modify_assistant(known.id, changes)
            log.info("assistant.changed", assistant=known.id, name=known.name)


async def _by_name(store: Store) -> dict[str, Assistant]:
    """All assistants but those of a tenant; of several with one name ours, else the oldest."""
    found: dict[str, Assistant] = {}
    query = PageQuery(limit=100, order="asc")
    while True:
        page = await store.list_assistants(query)
        for assistant in page.items:
            if assistant.tenant not in {DEFAULT_TENANT, EVERYBODY}:
                continue
            name = assistant.name or ""
            if name not in found or assistant.id == id_of(name):
                found[name] = assistant
        if not page.has_more:
            return found
        query = PageQuery(limit=100, order="asc", after=page.items[-1].id)

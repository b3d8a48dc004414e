"""Whose a request is, and the store with what is there for its key.

A key with the name of a tenant finds what was made under that name, and of all else nothing: every
answer is the one that an unknown id gets, since the store itself tells no difference. A key without
a name is the operator's and finds everything, as does everybody on a server without keys.
"""

from typing import Annotated, Final

from fastapi import Depends, Request

from api.auth import WORKERS, is_same, key_given
from api.connection import SettingsDep, StoreConnection
from orchestrator.errors import OperatorsOnly
from orchestrator.store import Store


async def _tenant_of(request: Request, settings: SettingsDep) -> str | None:
    path = request.scope["path"]
    if not settings.api_keys or path.startswith(WORKERS):
        return None
    given = key_given(path, request.headers)
    tenants = [key.tenant for key in settings.api_keys if is_same(given, key.secret)]
    return tenants[0]


TenantDep = Annotated[str | None, Depends(_tenant_of)]
"""The tenant; ``None``: the operator. Nobody else has come through the gate."""


async def _store_of(request: Request, tenant: TenantDep) -> Store:
    connection: StoreConnection = request.app.state.connection
    store = connection.store
    return store if tenant is None else store.seen_by(tenant)


StoreDep = Annotated[Store, Depends(_store_of)]


async def _refuse_tenants(request: Request, tenant: TenantDep) -> None:
    if tenant is not None:
        raise OperatorsOnly(request.scope["path"])


FOR_OPERATORS: Final = Depends(_refuse_tenants)
"""Of routes that show what all tenants have in common."""

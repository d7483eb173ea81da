"""Which HTTP clients of the caller's own are accepted."""

from typing import Any

import httpx
import httpx2
import pytest

from coreason_client import A2AClient, AsyncA2AClient, AsyncCAPClient, CAPClient
from coreason_client._http._checks import check_http_client


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_clients_of_the_right_kind_are_accepted(library: Any) -> None:
    check_http_client(library.Client(), is_async=False)
    check_http_client(library.AsyncClient(), is_async=True)
    check_http_client(None, is_async=True)


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_a_client_of_the_other_kind_is_refused_with_the_remedy(library: Any) -> None:
    with pytest.raises(TypeError, match="got AsyncClient; use the async client class"):
        check_http_client(library.AsyncClient(), is_async=False)
    with pytest.raises(TypeError, match="got Client; use the sync client class"):
        check_http_client(library.Client(), is_async=True)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("client", ["https://proxy.example", object(), 5, httpx2])
def test_what_is_no_client_is_refused(client: Any, is_async: bool) -> None:
    with pytest.raises(TypeError, match=r"http_client must be an httpx2\.\w+ or httpx\.\w+, got"):
        check_http_client(client, is_async=is_async)


def test_every_client_class_refuses_it_at_construction() -> None:
    url = "https://agent.example"
    for make in (
        lambda: CAPClient(url, "key", http_client=httpx2.AsyncClient()),
        lambda: AsyncCAPClient(url, "key", http_client=httpx2.Client()),
        lambda: A2AClient(url, http_client=httpx2.AsyncClient()),
        lambda: AsyncA2AClient(url, http_client=httpx2.Client()),
    ):
        with pytest.raises(TypeError, match="http_client must be"):
            make()

from collections.abc import Callable

import pytest

from tests.each import each
from tests.testing.wires import CHECKS

PROVIDERS = ("anthropic",)


@pytest.mark.parametrize("provider", PROVIDERS)
@each("check", CHECKS)
def test_our_client_reads_what_the_fake_model_sends(
    provider: str, check: Callable[[str], None]
) -> None:
    check(provider)

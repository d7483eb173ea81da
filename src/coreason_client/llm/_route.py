"""The route of a model: its provider, base URL and key. Pure.

The rules:

* If the host of the base URL is known, it determines the provider. For other hosts the prefix of
  `provider/model` does; without one, the provider is OpenAI-compatible.
* Without a base URL the prefix determines the provider; without a prefix it is OpenAI. A prefix
  that is not a provider is refused: the key would go to a provider that was not meant.
* Model names are sent unchanged, except that the prefix of the selected provider is removed once.
  It is kept if it is part of the model's own name, as in `groq/compound` at Groq and
  `openrouter/auto` at OpenRouter.
* The key belongs to the base URL, or without one to OpenAI, and is never sent anywhere else. A
  model of a provider whose own key was given is sent to that provider's base URL, with that key:
  the one in `base_urls`, or the default one. Bedrock's follows from the region of AWS credentials.
* A base URL without a path gets the provider's default path.
* If the key is a callable, the route has no key until it is fetched (`_plan.py`).

The wire format of an OpenAI-compatible provider:

* `wire="responses"` chooses the Responses API, `wire="chat"` the provider's usual format. Which
  providers have the Responses API is data (`providers/profiles.py`).
* Without `wire`, the usual format is used, except for models that exist only in the Responses API.
* Claude at Vertex has Anthropic's format.
* `wire` is about the provider at the base URL: if that has no Responses API, it is an error. Models
  of other providers, such as fallbacks, use the Responses API if their provider has it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

from .._http._checks import check_url, merged_headers, shown
from .._secret import header_secrets, redact
from .._version import __version__
from ..errors import ArgumentError
from ._adapter import Adapter
from ._profile import ProviderProfile
from .credentials import (
    AWSCredentials,
    Key,
    KeyLike,
    KeyProvider,
    bedrock_url,
    check_key_of,
    key_headers,
    key_secrets,
    signed,
)
from .errors import LLMAuthenticationError, LLMRequestError
from .providers import ADAPTERS
from .providers._claude import BEFORE_4_6, CLAUDE_ON_VERTEX
from .providers.profiles import COMPATIBLE, PROFILES

Checked = TypeVar("Checked")

_BY_NAME: Mapping[str, ProviderProfile] = {
    profile.name: profile for profile in (*PROFILES, COMPATIBLE)
}
_DEFAULT = _BY_NAME["openai"]
_API_VERSION = "api-version"  # a parameter of Azure, which its messages may name
_ENDPOINTS = ("/chat/completions", "/responses", "/v1/messages")
_WIRES = ("responses", "chat")

Wire: TypeAlias = Literal["responses", "chat"]
"""A wire format of OpenAI and compatible providers."""


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The provider, base URL, model name and headers of the requests for one model."""

    profile: ProviderProfile
    adapter: Adapter
    base: str
    query: str
    model: str
    key: Key | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key_provider: KeyProvider | None = field(default=None, repr=False)
    key_name: str = "api_key"

    def with_key(self, key: Key) -> "ModelRoute":
        """Return the route with a key that its callable returned."""
        added = key_headers(self.profile, key, fetched=True)
        headers = merged_headers(_format_headers(self.adapter), added, self.extra_headers)
        return replace(self, key=key, headers=headers)

    def without_key(self) -> "ModelRoute":
        """Return the route without the key that its callable returned."""
        headers = merged_headers(_format_headers(self.adapter), self.extra_headers)
        return replace(self, key=None, headers=headers)

    def request_headers(
        self, method: str, url: str, body: bytes, now: Callable[[], float]
    ) -> Mapping[str, str]:
        """Return the headers of one request; `now` returns the seconds since 1970.

        Raises:
            LLMRequestError: it must be signed, and the region is not known.
        """
        if isinstance(self.key, AWSCredentials):
            return signed(self.headers, self.key, method, url, body, now())
        return self.headers

    def secrets(self) -> Sequence[str]:
        """Return all secrets in the key, the headers and the query of the base URL."""
        return [
            *key_secrets(self.key),
            *header_secrets(self.headers),
            *(value for name, value in parse_qsl(self.query) if name != _API_VERSION),
        ]

    def redact(self, text: str) -> str:
        """Return a text without these secrets."""
        return redact(text, self.secrets())


@dataclass(frozen=True, slots=True)
class Target:
    """The caller's configuration.

    `provider` names a profile that applies to any host, `wire` is a format of that provider.
    """

    base_url: str | None
    api_key: KeyLike | None = field(repr=False)
    keys: Mapping[str, KeyLike] = field(default_factory=dict, repr=False)
    provider: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    wire: Wire | None = None
    base_urls: Mapping[str, str] = field(default_factory=dict)

    def route(self, model: str) -> ModelRoute:
        """Return the route of a model.

        Raises:
            LLMAuthenticationError: there is no key for it.
            LLMRequestError: the model has no name or an unknown prefix, its provider no base URL,
                or not the format `wire`.
        """
        profile, own = self._select_profile(model)
        key = self.api_key if own else self.keys.get(profile.name)
        base, query = self._base(profile, key, own=own)
        name = _model_name(model, profile)
        if not name:
            raise LLMRequestError(
                f"model must have a name after the provider prefix, got {model!r}"
            )
        profile = profile_on_wire(profile, name, base, self.wire, own=own)
        if key is None and profile.needs_key:
            raise self._no_key(profile, model, base, own=own)
        adapter = ADAPTERS[profile.wire]
        key_name = "api_key" if own else f"keys[{profile.name!r}]"
        provider = key if callable(key) else None
        known = None if key is None or callable(key) else check_key_of(profile, key, key_name)
        extra = self.headers if own else {}
        added = key_headers(profile, known, fetched=False)
        headers = merged_headers(_format_headers(adapter), added, extra)
        return ModelRoute(
            profile, adapter, base, query, name, known, headers, extra, provider, key_name
        )

    def _select_profile(self, model: str) -> tuple[ProviderProfile, bool]:
        """Return the profile, and True if the base URL and the key belong to it."""
        named = _BY_NAME.get(model.partition("/")[0]) if "/" in model else None
        if self.base_url is None and self.provider is None:
            provider_prefix(model)
        home = self._home()
        if home is None:  # unknown host
            elsewhere = named is not None and named.name in self.keys
            return named or COMPATIBLE, not elsewhere
        if named is None or home.vendor_names:
            return home, True
        if named.name == _prefix(home):
            # The caller configured nothing but the provider's own key, so that is used.
            bare = self.base_url is None and self.api_key is None
            return home, not (bare and named.name in self.keys)
        if named.name in self.keys or self.base_url is None:
            return named, False
        return home, True

    def _home(self) -> ProviderProfile | None:
        """Return the profile of the base URL, None if its host is unknown."""
        if self.provider is not None:
            return _BY_NAME[self.provider]
        return _DEFAULT if self.base_url is None else _profile_at(self.base_url)

    def _base(self, profile: ProviderProfile, key: KeyLike | None, *, own: bool) -> tuple[str, str]:
        given = (self.base_url if own else None) or self.base_urls.get(profile.name)
        if given is None and profile.signs and isinstance(key, AWSCredentials) and key.region:
            given = bedrock_url(key.region)
        if given is None:
            if not profile.base_url:
                names = filter(None, ("LLM_API_BASE_URL", profile.base_url_variables))
                raise LLMRequestError(
                    f"{profile.name} has no default base URL: set {', or '.join(names)}, or pass "
                    "base_url in Python code"
                )
            return profile.base_url, ""
        parts = urlsplit(given)
        path = parts.path.rstrip("/") or profile.path
        return f"{parts.scheme}://{parts.netloc}{path}", parts.query

    def _no_key(
        self, profile: ProviderProfile, model: str, base: str, *, own: bool
    ) -> LLMAuthenticationError:
        if own:
            message = f"there is no key for {shown(base)}: set LLM_API_KEY"
            message += ", or pass api_key in Python code"
            if profile.name in self.keys:
                message += f" ({profile.key_variable} is for models named {profile.name}/…)"
        else:
            reason = f"there is no key for {shown(base)}"
            if self.api_key is not None:
                home = shown(self.base_url or _DEFAULT.base_url)
                reason = f"model {model!r} belongs to {profile.name}, but the key is for {home}"
            credentials = " or the variables of AWS credentials" if profile.signs else ""
            message = (
                f"{reason}: set {profile.key_variable}{credentials}, or set LLM_API_BASE_URL to "
                f"{shown(base)} together with LLM_API_KEY"
            )
        return LLMAuthenticationError(message, provider=profile.name, model=model)


def check_base_url(base_url: str, name: str = "base_url") -> str:
    """Return a base URL without its final slash; `name` is the argument or variable.

    Raises:
        ArgumentError: it is not a valid base URL.
    """
    try:
        parts = check_url(base_url, name, credentials_go_into="api_key")
    except TypeError as error:
        raise ArgumentError(name, "must be a string", base_url) from error
    if tail := next((tail for tail in _ENDPOINTS if parts.path.rstrip("/").endswith(tail)), None):
        raise ArgumentError(name, f"must not end with {tail}, which is added for each call")
    if parts.fragment:
        raise ArgumentError(name, f"must not have a fragment, got #{parts.fragment}")
    return base_url.rstrip("/")


def check_provider(name: str, argument: str = "provider") -> str:
    """Return the name if it is that of a provider; `argument` is used in the error.

    Raises:
        ArgumentError: there is no such provider.
    """
    if name not in _BY_NAME:
        raise ArgumentError(argument, f"must be one of {', '.join(_BY_NAME)}", name)
    return name


def check_by_provider(
    argument: str, given: Any, check: Callable[[Any, str], Checked]
) -> dict[str, Checked]:
    """Return the checked values of a mapping by provider name, empty if it is None.

    Raises:
        ArgumentError: it is not such a mapping.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ArgumentError(argument, "must be a mapping by provider name")
    return {
        check_provider(name, f"each name in {argument}"): check(value, f"{argument}[{name!r}]")
        for name, value in given.items()
    }


def provider_prefix(model: str) -> str:
    """Return the provider that a model names as its prefix, that of OpenAI if it names none.

    Raises:
        LLMRequestError: there is no such provider.
    """
    prefix, slash, _ = model.partition("/")
    if slash and prefix not in _BY_NAME:
        raise LLMRequestError(
            f"there is no provider {prefix!r} for model {model!r}: use the prefix of a provider, "
            "such as openai/ or anthropic/, or set LLM_API_BASE_URL (base_url in Python code) to "
            "the server that has this model",
            model=model,
        )
    return prefix if slash else _DEFAULT.name


def known_host(url: str) -> bool:
    """Return True if the host of a URL is a known provider."""
    try:
        check_url(url, credentials_go_into="api_key")
    except (TypeError, ValueError):
        return False
    return _profile_at(url) is not None


def _profile_at(url: str) -> ProviderProfile | None:
    parts = urlsplit(url)
    host, port, path = parts.hostname or "", parts.port, f"{parts.path.rstrip('/')}/"
    best: tuple[int, ProviderProfile] | None = None
    for profile in PROFILES:
        for known in profile.hosts:
            pattern, _, prefix = known.partition("/")
            matches_path = not prefix or path.startswith(f"/{prefix}/")
            if _matches_host(pattern, host, port) and matches_path:
                rank = len(prefix)
                if best is None or rank > best[0]:
                    best = rank, profile
    return None if best is None else best[1]


def _matches_host(pattern: str, host: str, port: int | None) -> bool:
    if pattern.startswith(":"):
        return pattern == f":{port}"
    if "*" in pattern:
        return fnmatchcase(host, pattern)
    return host.endswith(pattern) if pattern.startswith(".") else host == pattern


def _model_name(model: str, profile: ProviderProfile) -> str:
    """Return the provider's own name of the model: the routing prefix is removed once."""
    prefix, slash, rest = model.partition("/")
    name = rest if slash and prefix in (_prefix(profile), *profile.aliases) else model
    is_own = profile.only_vendor_names and name and "/" not in name
    return model if is_own or model.startswith(profile.own_names) else name


def _prefix(profile: ProviderProfile) -> str:
    return profile.prefix or profile.name


def _format_headers(adapter: Adapter) -> Mapping[str, str]:
    return {
        "Content-Type": "application/json",
        "User-Agent": f"coreason-client/{__version__}",
        **adapter.headers(),
    }


def check_wire(wire: Any) -> Wire | None:
    """Return the argument `wire`.

    Raises:
        ArgumentError: it is not a wire format.
    """
    if wire is None or (isinstance(wire, str) and wire in _WIRES):
        return cast("Wire | None", wire)
    raise ArgumentError("wire", f"must be None or one of {', '.join(_WIRES)}", wire)


def profile_on_wire(
    profile: ProviderProfile, model: str, base: str, wire: Wire | None, *, own: bool
) -> ProviderProfile:
    """Return the profile with the wire format for a model; `own`: the base URL is the caller's.

    Raises:
        LLMRequestError: the provider has no Responses API.
    """
    if profile.wire == "vertex" and model.startswith(CLAUDE_ON_VERTEX):
        return _on_claude(profile)
    has_responses = profile.responses and "/deployments/" not in f"{base}/"
    if wire == "responses":
        if not has_responses and own:
            raise LLMRequestError(_missing(profile), provider=profile.name, model=model)
        return _on_responses(profile) if has_responses else profile
    only_there = any(fnmatchcase(model, pattern) for pattern in profile.responses_models)
    return _on_responses(profile) if wire is None and only_there and has_responses else profile


@lru_cache(maxsize=64)  # each call for such a model needs it, and a profile has many fields
def _on_responses(profile: ProviderProfile) -> ProviderProfile:
    """Return a profile of the Responses API, in which no answer can be continued."""
    return replace(profile, wire="responses", prefix_form=None)


@lru_cache(maxsize=4)
def _on_claude(profile: ProviderProfile) -> ProviderProfile:
    """Return the profile of Claude at Vertex."""
    return replace(
        profile,
        wire="vertex-claude",
        max_temperature=1.0,
        prefix_form="plain",
        prefix_models=BEFORE_4_6,
    )


def _missing(profile: ProviderProfile) -> str:
    if profile.responses:  # Azure's older addresses
        return (
            f'wire="responses" needs a base URL of {profile.name} that ends with {profile.path}: '
            "the addresses of deployments have only chat completions"
        )
    message = f'wire must not be "responses" for {profile.name}, which has no Responses API'
    if profile.wire == "ollama":
        return f"{message} at this address; its compatible API has: pass a base_url ending with /v1"
    return f"{message}: leave out wire"

"""The route of a model: its provider, the address and the key. Pure.

The rules:

* A base URL whose host is known decides. At another host the prefix of `provider/model` decides,
  else it is OpenAI-compatible.
* Without a base URL the prefix decides, and it is OpenAI without one.
* Model names are sent as they are, but for the prefix of the provider that was chosen, which is
  removed once. It stays where it is part of the model's own name, as in `groq/compound` at Groq and
  `openrouter/auto` at OpenRouter.
* The key belongs to the base URL, or to OpenAI without one, and is never sent anywhere else. A
  model of a provider whose own key was given goes to that provider's own address, with that key.
* A base URL without a path gets the provider's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .._http._checks import check_key, check_url, merged_headers, shown
from .._secret import Credential, header_secrets, redact
from .._version import __version__
from ..errors import ArgumentError
from ._terms import Profile
from ._wire import Adapter
from .errors import LLMAuthenticationError, LLMRequestError
from .providers import ADAPTERS
from .providers.profiles import COMPATIBLE, PROFILES

__all__ = ["Route", "Target", "check_base_url", "check_provider", "known_host"]

_BY_NAME: Mapping[str, Profile] = {profile.name: profile for profile in (*PROFILES, COMPATIBLE)}
_DEFAULT = _BY_NAME["openai"]
_ENDPOINTS = ("/chat/completions", "/v1/messages")


@dataclass(frozen=True, slots=True)
class Route:
    """The provider, address, name and headers of the requests for one model."""

    profile: Profile
    adapter: Adapter
    base: str
    query: str
    model: str
    credential: Credential | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @property
    def key(self) -> str | None:
        """The key of the requests, None if the provider needs none."""
        return None if self.credential is None else self.credential.value

    def secrets(self) -> Sequence[str]:
        """Return everything in a request that must not be shown."""
        return [*filter(None, [self.key]), *header_secrets(self.headers)]

    def redact(self, text: str) -> str:
        """Return a text without the key and without the secrets among the headers."""
        return redact(text, self.secrets())


@dataclass(frozen=True, slots=True)
class Target:
    """The caller's configuration; `provider` names a profile that applies to any host."""

    base_url: str | None
    api_key: str | None = field(repr=False)
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    provider: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def route(self, model: str) -> Route:
        """Return the route of a model.

        Raises:
            LLMAuthenticationError: there is no key for it.
            LLMRequestError: the model has no name, or its provider no address.
        """
        profile, own = self._profile(model)
        base, query = self._base(profile, own=own)
        name = _name(model, profile)
        if not name:
            raise LLMRequestError(f"model must name a model behind the provider, got {model!r}")
        key = self.api_key if own else self.keys.get(profile.name)
        if key is None and profile.needs_key:
            raise self._no_key(profile, model, base, own=own)
        adapter = ADAPTERS[profile.wire]
        headers = _headers(adapter, profile, key, self.headers if own else {})
        credential = None if key is None else Credential(key, "api_key", check=check_key)
        return Route(profile, adapter, base, query, name, credential, headers)

    def _profile(self, model: str) -> tuple[Profile, bool]:
        """Return the profile, and True if the base URL and the key belong to it."""
        named = _BY_NAME.get(model.partition("/")[0]) if "/" in model else None
        home = self._home()
        if home is None:  # an unknown host: only the model's name can decide
            elsewhere = named is not None and named.name in self.keys
            return named or COMPATIBLE, not elsewhere
        if named is None or home.vendor_names:
            return home, True
        if named.name == _prefix(home):
            # The caller named the provider and configured nothing else: its own key is used.
            bare = self.base_url is None and self.api_key is None
            return home, not (bare and named.name in self.keys)
        if named.name in self.keys or self.base_url is None:
            return named, False
        return home, True

    def _home(self) -> Profile | None:
        """Return the profile of the base URL, None when its host is not known."""
        if self.provider is not None:
            return _BY_NAME[self.provider]
        return _DEFAULT if self.base_url is None else _at(self.base_url)

    def _base(self, profile: Profile, *, own: bool) -> tuple[str, str]:
        given = self.base_url if own else None
        if given is None:
            if not profile.base_url:
                raise LLMRequestError(
                    f"{profile.name} has no address that is the same for everybody: set "
                    "LLM_API_BASE_URL, or pass base_url in Python code"
                )
            return profile.base_url, ""
        parts = urlsplit(given)
        path = parts.path.rstrip("/") or profile.path
        return f"{parts.scheme}://{parts.netloc}{path}", parts.query

    def _no_key(
        self, profile: Profile, model: str, base: str, *, own: bool
    ) -> LLMAuthenticationError:
        if own:
            words = f"there is no key for {shown(base)}: set LLM_API_KEY"
            words += ", or pass api_key in Python code"
            if profile.name in self.keys:
                words += f" ({profile.key_variable} is for models named {profile.name}/…)"
        else:
            why = f"there is no key for {shown(base)}"
            if self.api_key is not None:
                home = shown(self.base_url or _DEFAULT.base_url)
                why = f"model {model!r} belongs to {profile.name}, and the key is for {home}"
            words = (
                f"{why}: set {profile.key_variable}, or set LLM_API_BASE_URL to "
                f"{profile.base_url} beside LLM_API_KEY"
            )
        return LLMAuthenticationError(words, provider=profile.name, model=model)


def check_base_url(base_url: str, name: str = "base_url") -> str:
    """Return a base URL without the slash at its end; `name` is where it comes from.

    Raises:
        ArgumentError: it cannot be one.
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
    """Return the name of a profile.

    Raises:
        ArgumentError: there is none; `argument` is the argument that names it.
    """
    if name not in _BY_NAME:
        raise ArgumentError(argument, f"must be one of {', '.join(_BY_NAME)}", name)
    return name


def known_host(url: str) -> bool:
    """Return True if the host of a URL is a known provider."""
    try:
        check_url(url, credentials_go_into="api_key")
    except (TypeError, ValueError):
        return False
    return _at(url) is not None


def _at(url: str) -> Profile | None:
    parts = urlsplit(url)
    host, port, path = parts.hostname or "", parts.port, f"{parts.path.rstrip('/')}/"
    best: tuple[int, Profile] | None = None
    for profile in PROFILES:
        for known in profile.hosts:
            place, _, below = known.partition("/")
            if _is_at(place, host, port) and (not below or path.startswith(f"/{below}/")):
                rank = len(below)
                if best is None or rank > best[0]:
                    best = rank, profile
    return None if best is None else best[1]


def _is_at(place: str, host: str, port: int | None) -> bool:
    if place.startswith(":"):
        return place == f":{port}"
    return host.endswith(place) if place.startswith(".") else host == place


def _name(model: str, profile: Profile) -> str:
    """Return the model's name as the provider knows it: without a routing prefix, removed once."""
    prefix = f"{_prefix(profile)}/"
    name = model.removeprefix(prefix)
    is_own = profile.only_vendor_names and name and "/" not in name
    return model if is_own or model.startswith(profile.own_names) else name


def _prefix(profile: Profile) -> str:
    return profile.prefix or profile.name


def _headers(
    adapter: Adapter, profile: Profile, key: str | None, more: Mapping[str, str]
) -> Mapping[str, str]:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"coreason-client/{__version__}",
        **adapter.headers(),
    }
    if key is not None:
        if profile.auth == "bearer":
            headers["Authorization"] = f"Bearer {key}"
        else:
            headers[profile.auth] = key
    return merged_headers(headers, more)

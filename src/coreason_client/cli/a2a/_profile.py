"""The agent of a profile, which can be given instead of a URL."""

from dataclasses import replace

from ..exits import ExitCode, Failure
from ..profiles import load_profiles, profile_key
from ._agent import AgentOptions

__all__ = ["agent_of_profile"]


def agent_of_profile(agent: AgentOptions) -> AgentOptions:
    """Return the options with those of the profile that has the name in `url`, if there is one.

    The token is that of `--token`, otherwise the key of the profile. A token of the environment
    belongs to another agent and is not sent.

    Raises:
        Failure: the profile has no URL, or its key is missing.
    """
    found = load_profiles()
    if agent.url not in found.tables:
        return agent  # an error names the URL
    profile = found.get(agent.url)
    if profile.url is None:
        raise Failure(f"profile {profile.name!r} has no url", ExitCode.USAGE)
    given = agent.token_from_option and agent.token is not None
    return replace(
        agent,
        url=profile.url,
        profile=profile.name,
        token=agent.token if given else profile_key(profile),
        token_from_option=given,
        timeout=profile.timeout if agent.timeout is None else agent.timeout,
    )

"""The version of AgentGym: that of the installed distribution, which is made of a tag."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("agentgym-suite")
except PackageNotFoundError:  # a checkout on the path, not installed
    __version__ = "0+unknown"

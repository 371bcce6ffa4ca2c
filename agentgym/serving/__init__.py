"""Environments over HTTP and WebSocket, in the protocol of OpenEnv."""

"""Engines that generate with vLLM, in this process or on a server."""

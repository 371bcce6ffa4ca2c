"""The gateway: agent programs that own their loop play through an OpenAI-compatible address."""

"""Open-loop load on an OpenAI endpoint, and what one client saw of it."""

"""The pool's other routers, and what they tell of requests that end engines."""

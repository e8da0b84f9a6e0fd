from tests.unit.cli.files import pool

__all__ = ["pool"]

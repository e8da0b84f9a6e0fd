"""The meaning of source code: what a result can depend on."""

import ast


def meaning(source: str) -> str:
    """Return the meaning of a module: its syntax tree without imports and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _does_nothing(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _does_nothing(node: ast.AST) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, ast.Import | ast.ImportFrom)

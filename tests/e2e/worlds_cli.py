"""`python -m server worlds …` as the tests call it."""

from typer.testing import CliRunner

from server.worlds_command import app


def worlds(*arguments, root, status=0):
    result = CliRunner().invoke(app, [*map(str, arguments), "--worlds", str(root)])
    assert result.exit_code == status, result.output
    return result.output


def folder_of(root):
    return next(path for path in root.iterdir() if len(path.name) == 26)

"""``holdkit completion``: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from .words import FINE


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    \b
    Example:
      eval "$(holdkit completion bash)"                                  # in ~/.bashrc
      holdkit completion zsh > ~/.zfunc/_holdkit
      holdkit completion fish > ~/.config/fish/completions/holdkit.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "the three shells are click's own"
    maker = found(context.find_root().command, {}, "holdkit", "_HOLDKIT_COMPLETE")
    click.echo(maker.source_template % maker.source_vars())  # not `source()`: that starts a shell to ask its version
    return FINE

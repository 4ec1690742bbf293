"""mnnconvert completion"""

from __future__ import annotations

import click

from minnow.cli._option import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script with which a shell completes command lines.

    Commands, flags, their values and model files are completed. To switch it on:

    \b
    bash: add to ~/.bashrc    eval "$(mnnconvert completion bash)"
    zsh:  add to ~/.zshrc     eval "$(mnnconvert completion zsh)"
    fish: run once            mnnconvert completion fish > ~/.config/fish/completions/mnnconvert.fish
    """
    from minnow.cli._complete import script

    click.echo(script(ctx.find_root().command, shell), nl=False)

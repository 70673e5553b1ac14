"""The command line: typer reads it, rich draws. One file a command; nothing below imports this."""

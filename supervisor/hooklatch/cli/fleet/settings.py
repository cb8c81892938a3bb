"""The [fleet] table of this machine's file of hooks, for commands."""

from __future__ import annotations

import os

from hooklatch.cli.terminal.exits import CommandError, Exit
from hooklatch.fleet.settings import FleetSettings, read_settings
from hooklatch.service.config.configuration import read_config
from hooklatch.service.config.file_safety import UnsafeFileError, read_safely
from hooklatch.service.config.toml_document import ConfigError

__all__ = ["read_fleet", "read_fleet_if_any"]


def read_fleet(config: str) -> FleetSettings | None:
    """Return the [fleet] table; None if there is none.

    Raises:
        CommandError: the file does not exist, is invalid, or another user could have written it.  Its `fields`, `url`
            and `keys` decide what leaves the machine, where to, and whose signatures count.
    """
    try:
        data = read_safely(config)
    except UnsafeFileError as error:
        raise CommandError(Exit.NOT_PERMITTED, str(error)) from None
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"{config} cannot be read: {error.strerror}; name it with --config") from None
    try:
        return read_settings(read_config(config, data).settings.fleet)
    except ConfigError as error:
        raise CommandError(Exit.BAD_DATA, str(error)) from None


def read_fleet_if_any(config: str) -> FleetSettings | None:
    """Return the [fleet] table; None if there is none, or no such file.

    Raises:
        CommandError: as `read_fleet`, for a file that exists.
    """
    return read_fleet(config) if os.path.lexists(config) else None

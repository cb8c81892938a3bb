"""The live commands: `watch` prints decisions as they are made, `ui` and `top` show them and hooks on the screen."""

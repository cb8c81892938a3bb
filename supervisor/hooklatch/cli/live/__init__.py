"""The live commands: `watch` shows decisions as they are made, and `top` the load of each hook."""

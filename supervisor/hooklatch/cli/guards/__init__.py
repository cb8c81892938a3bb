"""Commands for the gallery of guards: list and show what there is, put guards into hooks.d, test them."""

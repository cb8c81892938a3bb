/** Reasonix' hooks for `import`. */

import reasonix from "./reasonix.js";

export const { formatHookOutcomeMessage, Hooks, loadHooks, openHooks } = reasonix;

/** Ethos' registry for `import`. */

import ethos from "./ethos.js";

export const { HookRegistry, openHookRegistry } = ethos;

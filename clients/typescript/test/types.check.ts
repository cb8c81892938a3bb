/** Checked by the compiler, never run: what is declared is what is there, and a model's mistake is a type error. */

import type * as declared from "../types/index.js";
import type * as declaredEthos from "../types/ethos.js";
import type * as declaredReasonix from "../types/reasonix.js";
import * as ethos from "../src/ethos.js";
import * as written from "../src/index.js";
import * as reasonix from "../src/reasonix.js";

export const connect: typeof declared.connect = written.connect;
export const session: declared.Session = new written.Session();
export const failed: declared.RequestFailedError = new written.RequestFailedError(-32002, "unknown_event", "no");
export const hooks: declaredReasonix.Hooks = new reasonix.Hooks(session);
export const load: typeof declaredReasonix.loadHooks = reasonix.loadHooks;
export const format: typeof declaredReasonix.formatHookOutcomeMessage = reasonix.formatHookOutcomeMessage;
export const registry: Pick<declaredEthos.HookRegistry, "hasHandlers" | "unregisterPlugin" | "refresh" | "close"> =
  new ethos.HookRegistry(session);

export async function use(registry: declaredEthos.HookRegistry): Promise<string | undefined> {
  // @ts-expect-error before_tool_call is a modifying point
  registry.registerVoid("before_tool_call", async () => undefined);
  const stop: () => void = registry.registerModifying("before_tool_call", async () => ({ error: "no" }));
  stop();
  return (await registry.fireModifying("before_tool_call", { toolName: "terminal", args: {} })).error;
}

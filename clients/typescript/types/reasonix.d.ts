/** Reasonix' hooks; `timeout` and `durationMs` are in milliseconds. */

import type { Options, Session } from "./index.js";

export interface ResolvedHook {
  event: string;
  command: string;
  match?: string;
  timeout?: number;
  description?: string;
  scope: string;
  source: string;
}

export interface HookOutcome {
  hook: { scope: string; event: string; command: string; id?: string };
  decision: "pass" | "block" | "warn" | "error";
  exitCode: number | null;
  stdout: string;
  stderr: string;
  durationMs: number;
  truncated?: boolean;
}

export interface HookReport {
  event: string;
  outcomes: HookOutcome[];
  blocked: boolean;
}

export declare function loadHooks(places?: { projectRoot?: string; homeDir?: string }): ResolvedHook[];
export declare function formatHookOutcomeMessage(outcome: HookOutcome): string;
export declare function openHooks(options?: Options): Promise<Hooks>;

export declare class Hooks {
  constructor(session: Session);
  readonly session: Session;
  runHooks(options: {
    hooks?: ResolvedHook[];
    payload: { event: string; [key: string]: unknown };
  }): Promise<HookReport>;
  close(): Promise<void>;
}

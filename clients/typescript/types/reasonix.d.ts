/** Reasonix' hooks; `timeout` and `durationMs` are in milliseconds. */

import type { Options, Session } from "./index.js";

/** A hook as `loadHooks` gives it: what its entry says, as the daemon has read it, and where it is from. */
export interface ResolvedHook {
  event: string;
  /** The line for a shell; empty where there is a `problem`, for people where there are `argv`. */
  command: string;
  match?: string | undefined;
  timeout?: number | undefined;
  description?: string | undefined;
  scope: string;
  source: string;
  id?: string | undefined;
  /** Why it cannot be used, if it cannot: it blocks where it would have decided. */
  problem?: string | undefined;
  /** Words of a command that needs no shell. */
  argv?: string[] | undefined;
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
}

export interface HookOutcome {
  /** The hook that was passed to `runHooks`, or one of the daemon's. */
  hook: ResolvedHook | { scope: string; event: string; command: string; id?: string };
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

interface Common {
  cwd?: string | undefined;
  sessionId?: string | undefined;
}

interface ToolCall extends Common {
  toolName: string;
  toolArgs?: unknown;
  toolCallId?: string | undefined;
}

/** What each event is fired with. */
export interface HookPayloads {
  PreToolUse: ToolCall;
  PostToolUse: ToolCall & { toolResult?: unknown; durationMs?: number | undefined };
  PostToolUseFailure: ToolCall & { error?: string | undefined; isInterrupt?: boolean | undefined };
  PermissionRequest: ToolCall & { subject?: string | undefined };
  UserPromptSubmit: Common & { prompt: string; turn?: number | undefined };
  Stop: Common & { lastAssistantText?: string | undefined; turn?: number | undefined };
  StopFailure: Common & {
    lastAssistantText?: string | undefined;
    turn?: number | undefined;
    error?: string | undefined;
  };
  PostLLMCall: Common & { reasoning?: string | undefined; turn?: number | undefined };
  SessionStart: Common & { source?: string | undefined };
  SessionEnd: Common & { reason?: string | undefined };
  PreSubagent: Common & {
    subagentId?: string | undefined;
    agentType?: string | undefined;
    prompt?: string | undefined;
  };
  SubagentStop: Common & {
    subagentId?: string | undefined;
    agentType?: string | undefined;
    lastAssistantText?: string | undefined;
  };
  Notification: Common & { message?: string | undefined; notificationType?: string | undefined };
  PreCompact: Common & { trigger?: string | undefined };
}

export type HookEvent = keyof HookPayloads;

/** A payload with its event; of an event that is not listed here, anything. */
export type HookPayload<E extends string> = { event: E } & (E extends HookEvent
  ? HookPayloads[E]
  : { [key: string]: unknown });

/** Below which folders `.reasonix/settings.json` is looked for; the home folder is the user's own if left out. */
export interface Places {
  projectRoot?: string | undefined;
  homeDir?: string | undefined;
}

/** The hooks of the project, then of the person, as the daemon reads their files. */
export declare function loadHooks(places?: Places & Options): Promise<ResolvedHook[]>;
export declare function formatHookOutcomeMessage(outcome: HookOutcome): string;
export declare function openHooks(options?: Options): Promise<Hooks>;

export declare class Hooks {
  constructor(session: Session);
  readonly session: Session;
  loadHooks(places?: Places): Promise<ResolvedHook[]>;
  runHooks<E extends string>(options: {
    hooks?: ResolvedHook[] | undefined;
    payload: HookPayload<E>;
    /** Give it up: what could be blocked is blocked then. */
    signal?: AbortSignal | undefined;
  }): Promise<HookReport>;
  close(): Promise<void>;
}

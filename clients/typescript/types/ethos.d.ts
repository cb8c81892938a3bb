/** Ethos' hook registry: the point decides the model, and a handler of another model is a type error. */

import type { Options, Session } from "./index.js";

export interface VoidHooks {
  session_start: any;
  before_llm_call: any;
  after_llm_call: any;
  after_tool_call: any;
  tool_end_with_path: any;
  agent_done: any;
  message_received: any;
  message_sent: any;
  subagent_spawned: any;
  subagent_ended: any;
}

/** Each point's payload and result. */
export interface ModifyingHooks {
  before_prompt_build: [any, { prependSystem?: string; appendSystem?: string; overrideSystem?: string }];
  before_tool_call: [any, { args?: unknown; error?: string }];
  message_sending: [any, { message?: any }];
  personality_switched: [any, { personality?: string }];
  subagent_spawning: [any, { prompt?: string; personalityId?: string; error?: string }];
}

export interface ClaimingHooks {
  inbound_claim: [any, { handled: boolean; [key: string]: unknown }];
  before_dispatch: [any, { handled: boolean; [key: string]: unknown }];
}

export declare function openHookRegistry(options?: Options): Promise<HookRegistry>;

export declare class HookRegistry {
  constructor(session: Session);
  readonly session: Session;
  registerVoid<K extends keyof VoidHooks>(
    name: K,
    handler: (payload: VoidHooks[K]) => Promise<void>,
    options?: { pluginId?: string; failurePolicy?: "fail-open" | "fail-closed" },
  ): () => void;
  registerModifying<K extends keyof ModifyingHooks>(
    name: K,
    handler: (payload: ModifyingHooks[K][0]) => Promise<Partial<ModifyingHooks[K][1]> | null>,
    options?: { pluginId?: string },
  ): () => void;
  registerClaiming<K extends keyof ClaimingHooks>(
    name: K,
    handler: (payload: ClaimingHooks[K][0]) => Promise<ClaimingHooks[K][1]>,
    options?: { pluginId?: string },
  ): () => void;
  fireVoid<K extends keyof VoidHooks>(name: K, payload: VoidHooks[K], allowedPlugins?: string[]): Promise<void>;
  fireModifying<K extends keyof ModifyingHooks>(
    name: K,
    payload: ModifyingHooks[K][0],
    allowedPlugins?: string[],
  ): Promise<ModifyingHooks[K][1]>;
  fireClaiming<K extends keyof ClaimingHooks>(
    name: K,
    payload: ClaimingHooks[K][0],
    allowedPlugins?: string[],
  ): Promise<ClaimingHooks[K][1]>;
  unregisterPlugin(pluginId: string): void;
  hasHandlers(model: "void" | "modifying" | "claiming", name: string): boolean;
  refresh(): Promise<void>;
  close(): Promise<void>;
}

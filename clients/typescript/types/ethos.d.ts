/**
 * Ethos' hook registry: the point decides the model, and a handler of another model is a type error.
 *
 * Payloads and results are interfaces: a host that fires more adds it by `declare module "hooklatch/ethos"`.
 */

import type { Options, Session } from "./index.js";

export interface SessionStart {
  sessionId: string;
  sessionKey?: string | undefined;
  platform?: string | undefined;
  personalityId?: string | undefined;
}

export interface BeforeLlmCall {
  sessionId: string;
  model: string;
  turnNumber: number;
  requestId?: string | undefined;
  personalityId?: string | undefined;
  system?: unknown;
  tools?: unknown;
  messages?: unknown;
}

export interface Usage {
  inputTokens: number;
  outputTokens?: number | undefined;
  cacheReadTokens?: number | undefined;
  cacheCreationTokens?: number | undefined;
  estimatedCostUsd?: number | undefined;
  requestTokens?: { system: number; tools: number; messages: number } | undefined;
}

export interface AfterLlmCall {
  sessionId: string;
  text: string;
  model?: string | undefined;
  turnNumber?: number | undefined;
  usage?: Usage | undefined;
  requestId?: string | undefined;
  finishReason?: "end_turn" | "tool_use" | "max_tokens" | "stop_sequence" | "error" | undefined;
  durationMs?: number | undefined;
  personalityId?: string | undefined;
  system?: unknown;
  tools?: unknown;
  messages?: unknown;
}

export interface AfterToolCall {
  sessionId: string;
  toolCallId?: string | undefined;
  toolName: string;
  args?: unknown;
  result: unknown;
  durationMs?: number | undefined;
}

export interface ToolEndWithPath {
  sessionId: string;
  personalityId?: string | undefined;
  toolName: string;
  filePath: string;
  workingDir: string;
}

export interface AgentDone {
  sessionId: string;
  text: string;
  turnCount: number;
  personalityId?: string | undefined;
  successfulToolCalls?: number | undefined;
  totalToolCalls?: number | undefined;
  toolNames?: string[] | undefined;
  initialPrompt?: string | undefined;
  activeSkillFiles?: string[] | undefined;
}

/** A message of a channel; what else a platform says of it is beside these. */
export interface Message {
  platform: string;
  text: string;
  chatId?: string | undefined;
  messageId?: string | undefined;
  userId?: string | undefined;
  isDm?: boolean | undefined;
  [key: string]: unknown;
}

export interface MessageReceived {
  message: Message;
  sessionId?: string | undefined;
}

export interface MessageSent {
  chatId: string;
  messageId?: string | undefined;
  message?: unknown;
  sessionId?: string | undefined;
}

export interface SubagentSpawned {
  parentSessionId: string;
  childSessionId: string;
  personalityId?: string | undefined;
}

export interface SubagentEnded {
  parentSessionId: string;
  childSessionId: string;
  personalityId?: string | undefined;
  result?: unknown;
}

export interface BeforePromptBuild {
  sessionId: string;
  personalityId?: string | undefined;
  history: unknown[];
}

export interface PromptAmendment {
  prependSystem?: string | undefined;
  appendSystem?: string | undefined;
  overrideSystem?: string | undefined;
}

export interface BeforeToolCall {
  sessionId: string;
  toolCallId: string;
  toolName: string;
  args: unknown;
  personalityId?: string | undefined;
  voiceOrigin?: unknown;
}

export interface ToolCallAmendment {
  /** Whole new arguments: run these. */
  args?: unknown;
  /** Why the call is refused. */
  error?: string | undefined;
}

export interface MessageSending {
  chatId: string;
  message: unknown;
  sessionId?: string | undefined;
}

export interface MessageAmendment {
  message?: unknown;
}

export interface PersonalitySwitched {
  sessionId: string;
  from?: string | undefined;
  to: string;
}

export interface PersonalityAmendment {
  personality?: string | undefined;
}

export interface SubagentSpawning {
  parentSessionId: string;
  prompt: string;
  personalityId?: string | undefined;
}

export interface SubagentAmendment {
  prompt?: string | undefined;
  personalityId?: string | undefined;
  /** Why the subagent is refused. */
  error?: string | undefined;
}

export interface InboundClaim {
  message: Message;
  sessionId?: string | undefined;
}

export interface BeforeDispatch {
  chatId?: string | undefined;
  platform: string;
  text: string;
  botKey?: string | undefined;
  userId?: string | undefined;
  isDm?: boolean | undefined;
  message?: unknown;
}

/** A claim, with whatever the handler says beside it. */
export interface Claim {
  handled: boolean;
  [key: string]: unknown;
}

export interface VoidHooks {
  session_start: SessionStart;
  before_llm_call: BeforeLlmCall;
  after_llm_call: AfterLlmCall;
  after_tool_call: AfterToolCall;
  tool_end_with_path: ToolEndWithPath;
  agent_done: AgentDone;
  message_received: MessageReceived;
  message_sent: MessageSent;
  subagent_spawned: SubagentSpawned;
  subagent_ended: SubagentEnded;
}

/** Each point's payload and result. */
export interface ModifyingHooks {
  before_prompt_build: [BeforePromptBuild, PromptAmendment];
  before_tool_call: [BeforeToolCall, ToolCallAmendment];
  message_sending: [MessageSending, MessageAmendment];
  personality_switched: [PersonalitySwitched, PersonalityAmendment];
  subagent_spawning: [SubagentSpawning, SubagentAmendment];
}

export interface ClaimingHooks {
  inbound_claim: [InboundClaim, Claim];
  before_dispatch: [BeforeDispatch, Claim];
}

/** What a host fires; the ids that its session knows may be left out. */
export type Fired<P> = Omit<P, Ids> & { [K in keyof P & Ids]?: P[K] | undefined };
type Ids = "sessionId" | "toolCallId" | "parentSessionId";

/** What a handler may give: a result at once or later, or nothing. */
export type Given<R> = R | null | undefined | void | Promise<R | null | undefined | void>;

export declare function openHookRegistry(options?: Options): Promise<HookRegistry>;

export declare class HookRegistry {
  constructor(session: Session);
  readonly session: Session;
  registerVoid<K extends keyof VoidHooks>(
    name: K,
    handler: (payload: VoidHooks[K]) => void | Promise<void>,
    options?: { pluginId?: string | undefined; failurePolicy?: "fail-open" | "fail-closed" | undefined },
  ): () => void;
  registerModifying<K extends keyof ModifyingHooks>(
    name: K,
    handler: (payload: ModifyingHooks[K][0]) => Given<Partial<ModifyingHooks[K][1]>>,
    options?: { pluginId?: string | undefined },
  ): () => void;
  registerClaiming<K extends keyof ClaimingHooks>(
    name: K,
    handler: (payload: ClaimingHooks[K][0]) => Given<ClaimingHooks[K][1]>,
    options?: { pluginId?: string | undefined },
  ): () => void;
  fireVoid<K extends keyof VoidHooks>(
    name: K,
    payload: Fired<VoidHooks[K]>,
    allowedPlugins?: string[] | undefined,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<void>;
  fireModifying<K extends keyof ModifyingHooks>(
    name: K,
    payload: Fired<ModifyingHooks[K][0]>,
    allowedPlugins?: string[] | undefined,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<ModifyingHooks[K][1]>;
  fireClaiming<K extends keyof ClaimingHooks>(
    name: K,
    payload: Fired<ClaimingHooks[K][0]>,
    allowedPlugins?: string[] | undefined,
    options?: { signal?: AbortSignal | undefined },
  ): Promise<ClaimingHooks[K][1]>;
  unregisterPlugin(pluginId: string): void;
  hasHandlers(model: "void" | "modifying" | "claiming", name: string): boolean;
  refresh(): Promise<void>;
  close(): Promise<void>;
}

/// <reference lib="esnext.disposable" />

/** What `hooklatch` exports. No answer is a deny: `fire` never throws, and never allows a gate by itself. */

export type Verdict = "pass" | "allow" | "deny" | "ask" | "halt" | "claim";

/** The one answer to a fire, under the keys of the wire; times are in milliseconds. */
export interface Decision {
  readonly decision_id: string;
  readonly event: string;
  readonly verdict: Verdict;
  /** "policy" if a hook decided, else the failure for which it is a refusal. */
  readonly cause: string | null;
  readonly reason: string | null;
  readonly layer: string | null;
  readonly hook: string | null;
  readonly retryable: boolean;
  /** Whole new values for keys of the payload: run that, not what you fired. */
  readonly patch: Record<string, unknown> | null;
  readonly payload_digest: string | null;
  readonly inject: Record<string, unknown>[];
  readonly append: string | null;
  readonly resume: string | null;
  readonly value: unknown;
  readonly context: Record<string, unknown> | null;
  readonly revision: number | null;
  readonly duration_ms: number;
  readonly outcomes: Record<string, unknown>[];
  readonly warnings: string[];
  readonly name: string;
  /** In a session with a dialect, the answer in its words; null where the client decided by itself. */
  readonly rendered: any;
  readonly followed_by: Decision[];
  /** The shell command that a hook names in place of what it refuses, or asks about: the model's next step. */
  readonly instead: string | null;
  readonly record: { seq: number; hash: string } | null;
  /** Whether the action may go on: not for deny and halt, and not for ask, which needs approval first. */
  readonly allowed: boolean;
  readonly needsAsking: boolean;
  /** Whether the client decided by itself, without an answer of the daemon. */
  readonly isLocal: boolean;
  readonly explanation: string;
  readonly forModel: string;
  /** The error block that the Messages API needs for a tool call that was refused. */
  asToolResult(toolUseId: string): { type: "tool_result"; tool_use_id: string; is_error: true; content: string };
}

export interface Announcement {
  topic: string;
  previous?: number;
  revision?: number;
  digest?: string;
  added?: string[];
  removed?: string[];
  changed?: string[];
  /** Some were left out: ask for `hooks` again. */
  resync?: number;
  /** This many lines of the topic were left out: the listener was too slow. */
  missed?: number;
  decision?: Record<string, unknown>;
  /** When, in which session, for which host and tool the decision was made. */
  at?: string;
  session_id?: string | null;
  host?: string | null;
  tool?: string | null;
}

export interface Options {
  /** The daemon's socket; no other is tried. */
  path?: string | undefined;
  /** The daemon's folder; by default HOOKLATCH_RUNTIME_DIR, or the known places in turn. */
  runtimeDir?: string | undefined;
  /** The number of the user whose daemon is taken beside one's own and root's, who would be refused else. */
  daemonUid?: number | undefined;
  sessionId?: string | undefined;
  resumeToken?: string | undefined;
  name?: string | undefined;
  host?: string | undefined;
  cwd?: string | undefined;
  dialect?: string | undefined;
  personality?: string | undefined;
  plugins?: string[] | undefined;
  requireHandlers?: string[] | undefined;
  emits?: string[] | undefined;
  /** The session that started this one, whose gates apply here too; by default HOOKLATCH_PARENT names it. */
  parent?: { sessionId: string | null; childToken: string | null } | null | undefined;
  /** Throw if no daemon is reachable, instead of opening a session whose gates deny. */
  require?: boolean | undefined;
  /** How patient the client is with a silent daemon: seconds between pings, and how many may stay unanswered. */
  liveness?: { interval?: number | undefined; misses?: number | undefined } | undefined;
}

export interface FireOptions {
  callId?: string | undefined;
  /** In seconds, and enforced by the daemon; the default is the event's budget. */
  timeout?: number | undefined;
  context?: Record<string, unknown> | undefined;
  envelope?: Record<string, unknown> | undefined;
  plugins?: string[] | undefined;
  /** Give the fire up: the decision is then the client's own, a deny with cause "abandoned" where it can refuse. */
  signal?: AbortSignal | undefined;
}

/** What the daemon tells of a call to a served hook. */
export interface Call {
  hook: string;
  call_id: string;
  event: string;
  payload: Record<string, any>;
  envelope: Record<string, any>;
  /** What the hooks before it have changed so far. */
  merged?: Record<string, any>;
  /** It is called again, with what another hook has changed. */
  reinvoked?: boolean;
  config?: unknown;
}

/** A verdict, or nothing for no opinion. In a session with a dialect, an answer in its words. */
export type ServedHook = (payload: any, call: Call) => unknown;

/** What came of hooks that were registered one by one. */
export interface Registered {
  /** In the order of the definitions; null where nobody knows the event. */
  ids: (string | null)[];
  /** Those that stand in where they would have decided, and refuse there. */
  refused: { at: number; id: string | null; event: string; reason: string }[];
}

export declare function connect(options?: Options): Promise<Session>;

/** Whether an event counts as a gate where the daemon does not decide. */
export declare function refusesWhenUnknown(event: string): boolean;

export declare class Session {
  constructor(options?: Options);
  readonly sessionId: string | null;
  readonly childToken: string | null;
  readonly revision: number | null;
  readonly isConnected: boolean;
  readonly isClosed: boolean;
  open(): Promise<void>;
  fire(event: string, payload?: Record<string, unknown>, options?: FireOptions): Promise<Decision>;
  serve(event: string, hook: ServedHook, options?: Record<string, unknown>): Promise<string>;
  register(definitions: Record<string, any>[], functions?: (ServedHook | undefined)[]): Promise<string[]>;
  /** Register hooks one by one: one that is refused stands in for itself, and keeps none of the others away. */
  registerEach(definitions: Record<string, any>[], functions?: (ServedHook | undefined)[]): Promise<Registered>;
  unregister(id: string): Promise<void>;
  request(method: string, params?: Record<string, unknown>): Promise<any>;
  subscribe(...topics: string[]): Promise<number>;
  onAnnouncement(callback: (announcement: Announcement) => void): () => void;
  announcements(): AsyncGenerator<Announcement>;
  on<E extends keyof SessionEvents>(event: E, listener: (...args: SessionEvents[E]) => void): this;
  once<E extends keyof SessionEvents>(event: E, listener: (...args: SessionEvents[E]) => void): this;
  off<E extends keyof SessionEvents>(event: E, listener: (...args: SessionEvents[E]) => void): this;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What a session tells of itself, and with which arguments. */
export interface SessionEvents {
  /** There is a link to a daemon, the first one or another one. */
  connected: [];
  /** The link is gone; attempts to get another one follow. */
  lost: [error: Error];
  closed: [];
  announcement: [announcement: Announcement];
}

export declare class HooklatchError extends Error {}
export declare class DaemonUnreachableError extends HooklatchError {}
export declare class RequestFailedError extends HooklatchError {
  code: number;
  label: string;
}

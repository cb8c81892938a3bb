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
  readonly record: { seq: number; hash: string } | null;
  /** Whether the action may go on: not for deny and halt, and not for ask, which needs approval first. */
  readonly allowed: boolean;
  readonly needsAsking: boolean;
  /** Whether the client decided by itself, without an answer of the daemon. */
  readonly isLocal: boolean;
  readonly explanation: string;
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
  path?: string;
  /** The daemon's folder; by default HOOKLATCH_RUNTIME_DIR, or the known places in turn. */
  runtimeDir?: string;
  /** The number of the user whose daemon is taken beside one's own and root's, who would be refused else. */
  daemonUid?: number;
  sessionId?: string;
  resumeToken?: string;
  name?: string;
  host?: string;
  cwd?: string;
  dialect?: string;
  personality?: string;
  plugins?: string[];
  requireHandlers?: string[];
  emits?: string[];
  /** The session that started this one, whose gates apply here too; by default HOOKLATCH_PARENT names it. */
  parent?: { sessionId: string | null; childToken: string | null } | null;
  /** Throw if no daemon is reachable, instead of opening a session whose gates deny. */
  require?: boolean;
  /** How patient the client is with a silent daemon: seconds between pings, and how many may stay unanswered. */
  liveness?: { interval?: number; misses?: number };
}

export interface FireOptions {
  callId?: string;
  /** In seconds, and enforced by the daemon; the default is the event's budget. */
  timeout?: number;
  context?: Record<string, unknown>;
  envelope?: Record<string, unknown>;
  plugins?: string[];
}

/** A verdict, or nothing for no opinion. In a session with a dialect, an answer in its words. */
export type ServedHook = (payload: any, call: any) => unknown;

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
  unregister(id: string): Promise<void>;
  request(method: string, params?: Record<string, unknown>): Promise<any>;
  subscribe(...topics: string[]): Promise<number>;
  onAnnouncement(callback: (announcement: Announcement) => void): () => void;
  announcements(): AsyncGenerator<Announcement>;
  close(): Promise<void>;
}

export declare class HooklatchError extends Error {}
export declare class DaemonUnreachableError extends HooklatchError {}
export declare class RequestFailedError extends HooklatchError {
  code: number;
  label: string;
}

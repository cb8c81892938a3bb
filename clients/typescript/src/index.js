/** A client of the hooklatch daemon. No answer is a deny: `fire` never throws, and never allows a gate by itself. */

export { Decision } from "./decisions.js";
export { refusesWhenUnknown } from "./table.js";
export { DaemonUnreachableError, HooklatchError, RequestFailedError } from "./errors.js";
export { connect, Session } from "./session.js";
